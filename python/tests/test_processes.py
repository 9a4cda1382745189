"""Nothing is left behind, whatever ends."""

import gc
import json
import os
import pickle
import signal
import threading
import time
import unittest
from unittest import mock

import numpy as np

import funcgp
from funcgp import process
from common import alive, fitted, folder, program, rows

START = """
import json, os, sys
from common import fitted, rows
a = fitted()
a.predict(rows()[0])
print(json.dumps([a._process.pid, a._file]), flush=True)
"""


def within(seconds, what):
    """Waits until what() is true."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@unittest.skipUnless(os.path.exists("/proc/self/stat"), "there is no /proc")
class TestProcesses(unittest.TestCase):
    def gone(self, end, text=START, status=None):
        """A program that fits is ended, and neither its server nor a file is there."""
        with folder() as tmp:
            p = program(text, TMPDIR=tmp)
            server, file = json.loads(p.stdout.readline())
            self.assertTrue(alive(server) and os.path.exists(file) and file.startswith(tmp))
            self.assertEqual(os.stat(os.path.dirname(file)).st_mode & 0o777, 0o700)
            end(p)
            p.stdout.close()
            p.stdin.close()
            got = p.wait(timeout=20)
            if status is not None:
                self.assertEqual(got, status)
            self.assertTrue(within(10, lambda: not alive(server)), "the server runs on")
            self.assertTrue(within(10, lambda: not os.listdir(tmp)), os.listdir(tmp))

    def test_end_of_program(self):
        self.gone(lambda p: p.stdin.close(), START + "sys.stdin.read()", 0)

    def test_kill(self):
        self.gone(lambda p: p.send_signal(signal.SIGKILL), START + "sys.stdin.read()", -9)

    def test_terminate(self):
        self.gone(lambda p: p.send_signal(signal.SIGTERM), START + "sys.stdin.read()")

    def test_interrupt(self):
        self.gone(lambda p: p.send_signal(signal.SIGINT), START + "sys.stdin.read()")

    def test_exception(self):
        self.gone(lambda p: p.stdin.close(), START + "sys.stdin.read(); raise OSError", 1)

    def test_killed_while_it_fits(self):
        text = """
import json, threading, time, numpy as np
from common import network
import funcgp, funcgp.folder
X = np.random.default_rng(0).normal(size=(4000, 3))
threading.Thread(target=lambda: funcgp.fit(network(), X, X[:, 0] > 0, progress=False), daemon=True).start()
while not funcgp.folder._folder or not funcgp.folder._folder._pids: time.sleep(.01)
time.sleep(.3)
pid, = funcgp.folder._folder._pids
print(json.dumps([pid, funcgp.folder._folder.path + "/2.npz"]), flush=True)
time.sleep(60)
"""
        self.gone(lambda p: p.send_signal(signal.SIGKILL), text, -9)
        self.gone(lambda p: p.send_signal(signal.SIGINT), text)

    def test_interrupt_leaves_the_server(self):
        a = fitted()
        X, _ = rows()
        before, pid = a.predict(X).probability, a._process.pid
        stop = threading.Event()

        def interrupt():  # again and again, as Python drops one that arrives while it finalizes an object
            while not stop.wait(1):
                signal.raise_signal(signal.SIGINT)

        def interrupted(*_):
            if not stop.is_set():
                raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, interrupted))
        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            while True:
                a.predict(X)
        stop.set()
        thread.join()
        np.testing.assert_array_equal(a.predict(X).probability, before)
        self.assertEqual(a._process.pid, pid)

    def test_crash(self):
        a = fitted()
        X, _ = rows()
        before = a.predict(X).probability
        for sign in (signal.SIGKILL, signal.SIGTERM):  # in the latter way it ends when nobody asks for long
            pid = a._process.pid
            os.kill(pid, sign)
            np.testing.assert_array_equal(a.predict(X).probability, before)
            self.assertTrue(within(10, lambda: not alive(pid)))
            a.predict(X)
            self.assertNotEqual(a._process.pid, pid)

    def test_file_changed(self):
        """After a crash no other file answers."""
        with folder() as tmp:
            path = os.path.join(tmp, "a.gp")
            fitted().save(path)
            a = funcgp.open(path)
            fitted(at=7).save(path)
            X, _ = rows()
            a.predict(X)  # what was loaded stays
            os.kill(a._process.pid, signal.SIGKILL)
            with self.assertRaises(funcgp.Error) as e:
                a.predict(X)
            self.assertEqual(e.exception.code, "changed")

    def test_crash_at_each_request(self):
        """It is refused after a second try, with what the server said."""
        a = fitted()
        X, _ = rows()
        a.predict(X)

        ask = process._Connection.ask

        def killed(connection, method, path, *more):
            if path == "/v1/version":
                return ask(connection, method, path, *more)
            a._process._running.process.kill()
            raise ConnectionResetError("the server ended within an answer")

        with mock.patch("funcgp.process._Connection.ask", killed), self.assertRaises(funcgp.Error) as e:
            a._process.ask("GET", "/v1/model")
        self.assertEqual(e.exception.code, "crashed")
        a._process._check(5)
        self.assertEqual(len(a.predict(X)), 40)

    def test_fork(self):
        a = fitted()
        X, _ = rows()
        before, server = a.predict(X).probability, a._process.pid
        read, write = os.pipe()
        child = os.fork()
        if not child:
            ok = np.array_equal(a.predict(X).probability, before) and a._process.pid != server
            os.write(write, json.dumps([ok, a._process.pid]).encode())
            os._exit(0)  # as multiprocessing does: nothing of Python's runs at the end
        os.close(write)
        with os.fdopen(read) as pipe:
            ok, pid = json.loads(pipe.read())
        os.waitpid(child, 0)
        self.assertTrue(ok)
        self.assertTrue(within(10, lambda: not alive(pid)))
        np.testing.assert_array_equal(a.predict(X).probability, before)
        self.assertEqual(a._process.pid, server)

    def test_threads(self):
        a = fitted()
        X, _ = rows()
        before = a.predict(X).probability
        wrong = []

        def ask():
            for _ in range(20):
                if not np.array_equal(a.predict(X).probability, before):
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertFalse(wrong)

    def test_port(self):
        """As where Python has no Unix sockets."""
        with mock.patch("funcgp.process._SOCKETS", False):
            a = fitted()
            X, _ = rows()
            before = a.predict(X).probability
            named = a._process._running.place
            self.assertEqual(os.stat(named).st_mode & 0o777, 0o600)
            a._process._running.token = "another"
            a._process._idle.clear()
            with self.assertRaises(funcgp.Error):
                a.predict(X)
            os.kill(a._process.pid, signal.SIGKILL)
            np.testing.assert_array_equal(a.predict(X).probability, before)
            a.close()
            self.assertFalse(os.path.exists(named))

    def test_one_version(self):
        with mock.patch("funcgp.process.API", 99), self.assertRaises(funcgp.Error) as e:
            fitted().model
        self.assertEqual(e.exception.code, "version")

    def test_many_rows(self):
        a = fitted()
        X, _ = rows()
        p = a.predict(np.tile(X, (2500, 1)))
        self.assertEqual(len(p), 100_000)
        np.testing.assert_allclose(p.probability[-40:], a.predict(X).probability, rtol=1e-10)

    def test_close(self):
        a = fitted()
        a.predict(rows()[0])
        pid, file = a._process.pid, a._file
        with a:
            self.assertTrue(alive(pid) and os.path.exists(file))
        self.assertFalse(alive(pid) or os.path.exists(file))
        with self.assertRaises(funcgp.Error) as e:
            a.predict(rows()[0])
        self.assertEqual(e.exception.code, "closed")
        b = fitted()
        b.predict(rows()[0])
        pid, file = b._process.pid, b._file
        del b
        gc.collect()
        self.assertFalse(alive(pid) or os.path.exists(file))

    def test_pickle(self):
        a = fitted()
        X, _ = rows()
        b = pickle.loads(pickle.dumps(a))
        want = a.predict(X).probability
        a.close()
        np.testing.assert_array_equal(b.predict(X).probability, want)


if __name__ == "__main__":
    unittest.main()
