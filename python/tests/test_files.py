"""What goes to the command and to disk: arguments of any length, files that are written whole, and no room."""

import json
import os
import pickle
import stat
import tempfile
import unittest
import warnings
from unittest import mock

import numpy as np

import funcgp
from common import fitted, folder, network, program, rows
from funcgp import command


class Refusals(unittest.TestCase):
    def refused(self, code, text, f, *args, **options):
        with self.assertRaises(funcgp.Error) as e, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(*args, **options)
        self.assertEqual(e.exception.code, code, str(e.exception))
        self.assertIn(text, str(e.exception))


class TestArguments(Refusals):
    def setUp(self):
        self.X, self.y = rows()

    def fit(self, outputs=2, **options):
        given = {**dict(model=network(outputs), X=self.X, y=self.y), **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return funcgp.fit(progress=False, **given)

    def test_long(self):
        """What no command line holds goes by a file, which no other user may read."""
        long = "long " * 50_000
        with self.fit(class_names=[long, "b"]) as a:
            self.assertEqual(a.classes, [long.strip(), "b"])
        many = [f"class {k} " + "of several words " * 20 for k in range(500)]
        with self.fit(500, y=np.arange(40), class_names=many) as a:
            self.assertLessEqual(set(a.classes), {*(name.strip() for name in many), "others"})
        self.refused("failed", 'cannot freeze "p0"', self.fit, freeze=[f"p{k}" for k in range(30_000)])

    def test_not_seen(self):
        """No name of a class is on a command line, which other users of the machine can read."""
        seen = []
        popen = command.subprocess.Popen

        def started(arguments, **options):
            seen.append(arguments)
            return popen(arguments, **options)

        with mock.patch("subprocess.Popen", started):
            self.fit(class_names=["ill", "well"]).predict(self.X)
        self.assertGreater(len(seen), 1)
        self.assertNotIn("well", json.dumps(seen))
        left = os.listdir(command.folder().path)
        self.assertFalse([name for name in left if name.endswith(".json")])

    def test_texts(self):
        for bad in ("a\0", "a\ud800"):
            self.refused("bad_argument", "class_names has", self.fit, class_names=[bad, "b"])
            self.refused("bad_argument", "columns has", self.fit, columns=[bad, "b", "c"])
            self.refused("bad_argument", "ids has", self.fit, ids=[bad] * 40)
        self.refused("bad_argument", "is no path", self.fit, model="a\0.onnx")
        self.refused("bad_argument", "is no path", funcgp.open, "a\0.gp")

    def test_numbers(self):
        with self.fit() as a:
            for bad in (float("inf"), float("nan"), 2.5, "many", True, 10**30):
                self.refused("bad_argument", "top is", a.explain, self.X[0], top=bad)
                self.refused("bad_argument", "top is", a.audit, top=bad)
            self.refused("bad_rows", "row 1 of X, column 2", a.predict, [[1, 2, 3], [1, 2, 10**400]])
            self.refused("bad_argument", "output is", a.explain, self.X[0], output=0.5)

    def test_too_large(self):
        """The row and the input are named, in a request of many too."""
        with self.fit(columns=["u", "v", "w"]) as a:
            many = np.tile(self.X, (60, 1))
            many[2107, 1] = -1e200
            text = "row 2107 of X: its input v is -1e+200, too large to compute with"
            self.refused("not_computable", text, a.predict, many)
            self.refused("not_computable", "the row: its input v is -1e+200", a.explain, many[2107])


@unittest.skipUnless(os.name == "posix", "there are no links and devices")
class TestSave(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.a = fitted()
        cls.X, _ = rows()
        cls.want = cls.a.predict(cls.X).probability

    def opened(self, path):
        with funcgp.open(path) as b:
            np.testing.assert_array_equal(b.predict(self.X).probability, self.want)

    def test_links(self):
        """The file that a link leads to is written, also where there is none yet."""
        with tempfile.TemporaryDirectory() as d:
            link, target = os.path.join(d, "link.gp"), os.path.join(d, "target.gp")
            os.symlink("target.gp", link)
            for save, check in ((self.a.save, self.opened), (self.a.explain(self.X[0]).save, lambda path: None)):
                for _ in range(2):
                    save(link)
                    self.assertTrue(os.path.islink(link))
                    self.assertTrue(stat.S_ISREG(os.lstat(target).st_mode))
                    check(target)
            self.a.save(target)
            os.chmod(target, 0o604)
            self.a.save(link)
            self.assertEqual(os.stat(target).st_mode & 0o777, 0o604)
            with funcgp.open(link) as b:
                b.save(target)  # its own file
                b.audit()
            os.symlink("loop", os.path.join(d, "loop"))
            self.refused("failed", "symbolic links", self.a.save, os.path.join(d, "loop"))
            self.assertEqual(sorted(os.listdir(d)), ["link.gp", "loop", "target.gp"])

    def test_devices(self):
        self.a.save(os.devnull)
        self.a.explain(self.X[0]).save(os.devnull)
        self.assertTrue(stat.S_ISCHR(os.stat(os.devnull).st_mode))
        if os.path.exists("/dev/full"):
            self.refused("machine", "cannot write /dev/full: no space left", self.a.save, "/dev/full")

    def test_paths(self):
        with tempfile.TemporaryDirectory() as d:
            self.refused("failed", "is a directory; name a file in it", self.a.save, d)
            self.refused("failed", "create its directory first", self.a.save, os.path.join(d, "no", "a.gp"))
            self.refused("bad_argument", "is no path", self.a.save, "a\0b")
            self.refused("bad_argument", "is no path", self.a.save, "")
            for path in (os.path.join(d, "a.gp").encode(), os.path.join(d, "\udc80.gp")):
                self.a.save(path)
                self.opened(path)
            was = os.getcwd()
            try:
                os.chdir(d)
                self.a.save("here.gp")
            finally:
                os.chdir(was)
            self.opened(os.path.join(d, "here.gp"))

    def test_closed(self):
        b = fitted()
        b.close()
        for ask in (pickle.dumps, lambda p: p.save("a.gp"), lambda p: p.predict(self.X), lambda p: p.audit()):
            self.refused("closed", "the posterior is closed; open it again", ask, b)


@unittest.skipUnless(os.path.exists("/proc/self/stat"), "there are no limits of Linux")
class TestNoRoom(unittest.TestCase):
    def test_limits(self):
        """Whatever runs out, it is an error of the package."""
        text = """
import resource, signal, warnings
from common import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.{0}, ({1}, {1}))
try: fitted().predict(rows()[0])
except funcgp.Error as e: print(e.code, "|", e)
"""
        for limit, most, codes in (
            ("RLIMIT_FSIZE", 100, ["no_room"]),  # the files of this process
            ("RLIMIT_FSIZE", 3000, ["machine"]),  # those of the command
            ("RLIMIT_NOFILE", 7, ["no_room", "not_started"]),
        ):
            with self.subTest(limit), folder() as tmp:
                p = program(text.format(limit, most), TMPDIR=tmp)
                said = p.communicate(timeout=60)[0]
                self.assertIn(said.partition(" |")[0], codes, said)


if __name__ == "__main__":
    unittest.main()
