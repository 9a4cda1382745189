"""What a posterior answers, and what is refused."""

import os
import tempfile
import unittest
from unittest import mock

import numpy as np

import funcgp
from common import fitted, network, rows
from funcgp.command import flags, run


class TestAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = fitted(class_names=["no", "yes"], ids=[f"r{i}" for i in range(40)], columns=["u", "v", "w"])
        cls.X, cls.y = rows()

    def test_predict(self):
        p = self.a.predict(self.X)
        self.assertEqual(p.probability.shape, (40, 2))
        np.testing.assert_allclose(p.probability.sum(1), 1, atol=1e-12)
        np.testing.assert_array_equal(p.class_, np.array(["no", "yes"])[p.probability.argmax(1)])
        self.assertEqual(self.a.classes, ["no", "yes"])
        for one in (self.X[3], self.X[3:4], list(self.X[3])):
            np.testing.assert_array_equal(self.a.predict(one).probability[0], p.probability[3])
        many = self.a.predict(np.tile(self.X, (60, 1)))  # in several requests
        np.testing.assert_allclose(many.probability, np.tile(p.probability, (60, 1)), rtol=1e-10)

    def test_names(self):
        """Attributes are the members of the JSON, and mean, covariance and probability are got from each other."""
        p = self.a.predict(self.X)
        contrast = p.mean[:, 1] - p.mean[:, 0]
        v = p.covariance[:, 0, 0] + p.covariance[:, 1, 1] - 2 * p.covariance[:, 0, 1]
        z, w = np.polynomial.hermite_e.hermegauss(60)
        f = p.temperature * (contrast + p.shift[1] - p.shift[0])[:, None] + np.sqrt(p.scale * v)[:, None] * z
        np.testing.assert_allclose((1 / (1 + np.exp(-f))) @ w / w.sum(), p.probability[:, 1], atol=1e-8)
        np.testing.assert_allclose(1 / (1 + np.exp(-contrast)), p.map_probability[:, 1], rtol=1e-10)
        a = funcgp.fit(network(1), self.X, self.X[:, 0], loss="mse_loss", progress=False)
        r = a.predict(self.X)
        np.testing.assert_allclose(r.function_sd**2, r.scale * r.covariance[:, 0, 0], rtol=1e-8)
        self.assertEqual((r.covariance.shape, r.observation_mean.shape), ((40, 1, 1), (40,)))
        one = self.a.explain(self.X[3]).prediction
        for name in ("mean", "covariance", "probability", "probability_sd", "map_probability"):
            np.testing.assert_allclose(getattr(one, name)[0], getattr(p, name)[3], rtol=1e-9)
        self.assertEqual((one.scale, one.novelty.score[0]), (p.scale, p.novelty.score[3]))

    def test_coverage(self):
        p = self.a.predict(self.X, coverage=0.8)
        held = np.mean([label in classes for label, classes in zip(np.array(["no", "yes"])[self.y], p.set)])
        self.assertGreater(held, 0.7)
        self.refused("bad_coverage", "coverage", self.a.predict, self.X, coverage=2)
        for targets, shape in ((1, (40, 2)), (2, (40, 2, 2))):
            a = funcgp.fit(network(targets), self.X, self.X[:, :targets], loss="mse_loss", progress=False)
            p = a.predict(self.X)
            self.assertEqual(p.interval.shape, shape)
            np.testing.assert_allclose(p.interval.mean(-1), p.observation_mean)
            if targets == 1:
                self.assertEqual(a.predict(self.X, coverage=0.8).interval.shape, shape)
            else:
                self.refused("bad_coverage", "coverage", a.predict, self.X, coverage=0.8)

    def test_explain(self):
        e = self.a.explain(self.X[0], top=100)
        self.assertAlmostEqual(e.terms["value"].sum(), e.sum["contribution_sum"], 9)
        self.assertEqual(list(e.terms["id"]), [f"r{i}" for i in e.terms["index"]])
        many = self.a.explain(self.X[0], top=100, influence=True)
        self.assertNotIn("influence", e.terms.dtype.names)
        self.assertIn("influence", many.html())
        np.testing.assert_array_equal(many.terms.removal, e.terms.removal)
        near = np.abs(many.terms.influence) > 1e-9
        self.assertTrue(near.any())
        self.assertTrue((many.terms.influence * many.terms.removal <= 0)[near].all())  # with it, and without it
        self.assertIn("rather than", e.title)
        again = self.a.explain(self.X[0], contrast=("yes", "no"))
        self.assertAlmostEqual(abs(again.sum["network"]), abs(e.sum["network"]), 9)
        flip = e.smallest_flip()
        if flip is not None:
            w = e.without(flip)
            self.assertNotEqual(w.class_, w.class_before)
        self.assertIn("<html", e.html())
        self.assertNotIn(os.path.dirname(self.a._file), e.html())
        self.assertIn("srcdoc", e._repr_html_())
        self.assertIn("remainder", repr(e))

    def test_reports(self):
        v = self.a.evidence()
        self.assertAlmostEqual(v["log_evidence"], v["log_likelihood"] - 0.5 * v["scatter"] - 0.5 * v["log_det"], 6)
        self.assertEqual(self.a.audit()["examples"], 40)

    def test_inference(self):
        with funcgp.fit(network(), self.X, self.y, inference="variational", progress=False) as q:
            v = q.evidence()
            bound = v["elbo"]
            self.assertEqual(v["log_evidence"], bound["value"])
            self.assertAlmostEqual(bound["value"], bound["expected_log_likelihood"] - bound["kl"], 9)
            self.assertGreater(len(q.explain(self.X[0]).terms), 0)

    def test_frames(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        self.assertEqual(
            list(self.a.predict(self.X).frame().columns[:3]), ["class", "probability_no", "probability_yes"]
        )
        self.assertEqual(len(self.a.explain(self.X[0]).frame()), len(self.a.explain(self.X[0]).terms))
        self.assertIn("index", self.a.audit().frame("leverage").columns)
        b = funcgp.fit(
            network(), pandas.DataFrame(self.X, columns=["p", "q", "r"]), pandas.Series(self.y), progress=False
        )
        self.assertEqual(b.model["columns"], ["p", "q", "r"])

    def test_save(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.gp")
            self.a.save(path)
            with funcgp.open(path) as b:
                np.testing.assert_array_equal(b.predict(self.X).probability, self.a.predict(self.X).probability)
            self.assertEqual(os.listdir(folder), ["a.gp"])
            with open(path, "r+b") as file:
                file.seek(1000)
                file.write(b"damage")
            self.refused("failed", None, funcgp.open, path)
        self.refused("no_file", "path", funcgp.open, "nowhere.gp")

    def test_labels(self):
        words = np.array(["b", "a, b"])[self.y]
        a = fitted()
        for y, names, want in (
            (words, None, {"b", "a, b"}),
            (words, ["b", "a, b"], {"b", "a, b"}),
            (self.y, None, {0, 1}),
            (self.y > 0, None, {0, 1}),
        ):
            with self.subTest(str(y[:2])):
                p = funcgp.fit(network(), self.X, y, class_names=names, progress=False).predict(self.X)
                self.assertLessEqual(set(p.class_.tolist()), want)

    def refused(self, code, argument, f, *args, **options):
        with self.assertRaises(funcgp.Error) as e:
            f(*args, **options)
        self.assertEqual((e.exception.code, e.exception.argument), (code, argument), str(e.exception))
        self.assertNotIn("--", str(e.exception))
        self.assertNotIn("/tmp", str(e.exception))
        return str(e.exception)

    def test_refusals(self):
        X, y = self.X, self.y
        for code, argument, options in (
            ("bad_argument", "weight_decay", dict(weight_decay=-1)),
            ("bad_argument", "class_names", dict(class_names=["a"])),
            ("bad_argument", "method", dict(method="magic")),
            ("bad_rows", "X", dict(X=[[1, 2], [3]])),
            ("bad_rows", "X", dict(X=np.where(X > 1, np.nan, X))),
            ("bad_rows", "X", dict(X=[["a", "b", "c"]] * 40)),
            ("bad_rows", "y", dict(y=y[:5])),
            ("bad_rows", "class_names", dict(y=["a"] * 40, class_names=["b", "c"])),
            ("bad_model", "model", dict(model=3)),
            ("failed", None, dict(model=b"nonsense")),
            ("failed", None, dict(X=X[:, :2])),
            ("failed", None, dict(model="nowhere.onnx")),
        ):
            with self.subTest(options=str(options)[:60]):
                given = dict(dict(model=network(), X=X, y=y, progress=False), **options)
                try:
                    funcgp.fit(**given)
                    self.fail("nothing was refused")
                except funcgp.Error as e:
                    self.assertEqual(e.code, code, str(e))
                    if argument:
                        self.assertEqual(e.argument, argument, str(e))
                    self.assertNotIn("--", str(e))
                    self.assertNotIn("/tmp", str(e))
        self.refused("bad_rows", "X", self.a.predict, X[:, :2])
        self.refused("bad_rows", "X", self.a.predict, [[1, 2, np.inf]])
        self.refused("one_row", "row", self.a.explain, X)
        self.refused("bad_without", "rows", self.a.explain(X[0]).without, [99])
        self.refused("bad_contrast", "contrast", self.a.explain, X[0], contrast=("no", "maybe"))

    def test_binary(self):
        for environment, places in (({"FUNCGP_BINARY": "/nowhere"}, None), ({"PATH": ""}, iter([]))):
            with mock.patch.dict(os.environ, environment), mock.patch("funcgp.command._places", lambda: places):
                if places is not None:
                    os.environ.pop("FUNCGP_BINARY", None)
                self.refused("no_binary", None, funcgp.fit, network(), self.X, self.y)

    def test_pictures(self):
        """Grey levels and numbers from 0 to 1 are the same pictures, in predictions and explanations."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.gp")
            run("fit", "--bundle", f"--out={path}", "--data=digits:400,10", "--train-count=40")
            with funcgp.open(path) as a:
                grey = np.random.default_rng(0).integers(0, 256, (1, 28, 28)).astype(np.uint8)
                p = a.predict(grey)
                for x in (grey, grey / 255, (grey / 255)[0], (grey / 255).ravel()):
                    np.testing.assert_allclose(a.predict(x).probability, p.probability, rtol=1e-9)
                    e = a.explain(x)
                    np.testing.assert_allclose(e.prediction.probability, p.probability, rtol=1e-9)
                self.assertIn("rather than", e.title)
                self.assertEqual(e.without([int(e.terms.index[0])]).order, "refit")
                self.assertIn("data:image/png", e.html())

    def test_messages(self):
        """The command and its server name arguments, with values as Python writes them."""
        for options, want in (
            (dict(method="kept", weight_decay=0), "weight_decay=0 is no prior"),
            (dict(weight_decay=0), 'choose a precision with tune_prior="loo"'),
            (dict(method="subset", inducing=0), "inducing=0 must be at least 1"),
            (dict(inducing="a"), 'invalid argument "a" for "inducing" flag'),
            (dict(inducing=3), "inducing is for method subset or nystrom, not exact"),
            (dict(select="strength", method="subset"), 'select="strength" is for method="nystrom": a subset'),
            (dict(within=-1, method="kept"), "within=-1 must be above 0, and at most"),
            (dict(within=0.1, method="nystrom", tune_prior="loo"), 'is not for tune_prior="loo"; give method="kept"'),
            (dict(inference="variational", method="kept"), 'inference="variational" is for method exact or parameters'),
            (dict(workers=0), "workers=0 must be 1 to"),
            (dict(at="stated", tune_prior="loo"), "at and tune_prior exclude each other: both say"),
            (dict(standardize="magic"), 'standardize "magic" must be auto, yes'),
        ):
            with self.subTest(options=str(options)), self.assertRaises(funcgp.Error) as e:
                funcgp.fit(network(), self.X, self.y, progress=False, **options)
            self.assertIn(want, str(e.exception))
            self.assertIn(e.exception.argument, options)

    def test_flags(self):
        got = flags(
            dict(
                weight_decay=0.1,
                refit=True,
                at=None,
                certify=False,
                class_names=["a, b", 'c"'],
                freeze=["x"],
                target_mean=-1.5,
            )
        )
        self.assertEqual(
            got, ["--weight-decay=0.1", "--refit", '--class-names="a, b","c"""', "--freeze=x", "--target-mean=-1.5"]
        )


if __name__ == "__main__":
    unittest.main()
