"""Estimators of scikit-learn as networks, and funcgp's own by its conventions."""

import functools
import unittest
import warnings

import numpy as np

import funcgp
from common import network, rows

try:
    import sklearn
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError:
    sklearn = None

# Checks of scikit-learn that do not hold, with the reason.
EXCEPT = {
    "check_methods_sample_order_invariance": "the rounding of a row's products depends on its place in a request",
    "check_methods_subset_invariance": "the same",
    "check_dtype_object": "what is no number is a ValueError, and no TypeError",
}


def quiet(f, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **options)


class TestOwn(unittest.TestCase):
    """Without scikit-learn."""

    def test_classifier(self):
        X, y = rows(80, 3, seed=1)
        words = np.array(["no", "perhaps", "yes"])[y]
        c = quiet(funcgp.Classifier(epochs=50).fit, X, words)
        self.assertEqual(list(c.classes_), ["no", "perhaps", "yes"])
        self.assertGreater(c.score(X, words), 0.6)
        np.testing.assert_allclose(c.predict_proba(X).sum(1), 1, atol=1e-9)
        self.assertIn("rather than", c.explain(X[0]).title)

    def test_regressor(self):
        X, _ = rows(80)
        y = X[:, 0] - X[:, 1] ** 2
        r = quiet(funcgp.Regressor(epochs=300).fit, X, y)
        self.assertGreater(r.score(X, y), 0.7)
        mean, sd = r.predict(X, return_std=True)
        self.assertEqual((mean.shape, sd.shape), ((80,), (80,)))

    def test_trained(self):
        X, y = rows()
        c = quiet(funcgp.Classifier(network()).fit, X, y)
        a = quiet(funcgp.fit, network(), X, y, seed=0, progress=False)
        np.testing.assert_array_equal(c.predict_proba(X), a.predict(X).probability)

    def test_parameters(self):
        c = funcgp.Classifier(seed=3)
        self.assertEqual(c.set_params(method="parameters").get_params()["method"], "parameters")
        with self.assertRaises(ValueError):
            c.set_params(magic=1)


@unittest.skipIf(sklearn is None, "scikit-learn is not installed")
class TestSklearn(unittest.TestCase):
    def test_networks(self):
        for classes in (2, 3):
            X, y = rows(80, classes)
            for labels, activation, scaled in (
                (y, "identity", True),
                (2 * y + 4, "logistic", False),
                (np.array(["x", "y", "z"])[y], "tanh", True),
                (y > 0, "relu", False),
            ):
                with self.subTest(f"{classes} classes, {activation}, {labels.dtype}"):
                    m = MLPClassifier(hidden_layer_sizes=(5, 4), activation=activation, max_iter=60, random_state=0)
                    m = make_pipeline(StandardScaler(), m) if scaled else m
                    quiet(m.fit, X * 30 + 100 if scaled else X, labels)
                    self.same(m, X * 30 + 100 if scaled else X, labels, m.predict_proba)

    def test_regressions(self):
        X, _ = rows(60)
        for y in (X[:, 0] * 2 - X[:, 1], np.stack([X[:, 0], X[:, 2] ** 2], 1)):
            for scaled in (False, True):
                with self.subTest(f"{y.shape}, scaled {scaled}"):
                    m = MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", max_iter=800, random_state=0)
                    m = make_pipeline(StandardScaler(), m) if scaled else m
                    self.same(quiet(m.fit, X, y), X, y, m.predict)

    def same(self, m, X, y, predict):
        with quiet(funcgp.fit, m, X, y, progress=False) as a:
            p = quiet(a.predict, X)
            said = p.mean if p.map_probability is None else p.map_probability
            np.testing.assert_allclose(said.reshape(len(X), -1), predict(X).reshape(len(X), -1), atol=2e-5, rtol=1e-5)
            if p.class_ is not None:
                self.assertLessEqual(set(p.class_.tolist()), set(y.tolist()))

    def test_decay(self):
        """alpha is the prior precision, times the noise variance of a regression, at the match: there the network is a
        mode if the biases, which scikit-learn does not decay, are held."""
        X, y = rows(120)
        Y = np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]], 1) + 0.3 * np.random.default_rng(0).normal(size=(120, 2))
        options = dict(activation="tanh", solver="lbfgs", alpha=0.3, max_iter=9000, tol=1e-9, random_state=0)
        for m, target in (
            (MLPClassifier(hidden_layer_sizes=(6,), **options), y),
            (MLPClassifier(hidden_layer_sizes=(6,), **options), (Y > 0).astype(int)),  # several labels a row
            (MLPRegressor(hidden_layer_sizes=(6,), **options), Y[:, 0]),
            (MLPRegressor(hidden_layer_sizes=(6,), **options), Y),
        ):
            quiet(m.fit, X, target)
            noise = None if isinstance(m, MLPClassifier) else np.mean((m.predict(X) - target) ** 2)
            for at in (None, "stated"):
                frozen = dict(freeze=["layer0.bias", "layer1.bias"], noise_variance=noise, at=at, progress=False)
                with quiet(funcgp.fit, m, X, target, **frozen) as a:
                    said = a.evidence()["prior_precision"] * (noise or 1)
                    self.assertAlmostEqual(said, 0.3, delta=0.02)
                    if noise is None:
                        got = a.predict(X).map_probability
                        np.testing.assert_allclose(got, m.predict_proba(X), atol=2e-5, rtol=1e-5)
                        self.assertEqual(a.labels is None, target is y)

    def test_untrained(self):
        X, y = rows(60)
        m = make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(5,), max_iter=200, random_state=0))
        with self.assertRaises(funcgp.Error) as e:
            funcgp.fit(m, X, y)
        self.assertEqual((e.exception.code, e.exception.argument), ("bad_model", "model"))
        c = quiet(funcgp.Classifier(m).fit, X, y)
        self.assertFalse(hasattr(m.steps[-1][1], "coefs_"), "the model that was given is left as it is")
        self.assertGreater(c.score(X, y), 0.6)
        self.assertEqual(sklearn.base.clone(c).get_params()["model"].steps[-1][1].max_iter, 200)

    def test_trained_on_words(self):
        X, y = rows(60, 3)
        words = np.array(["no", "perhaps", "yes"])[y]
        m = quiet(MLPClassifier(hidden_layer_sizes=(5,), max_iter=200, random_state=0).fit, X, words)
        c = quiet(funcgp.Classifier(m).fit, X, words)
        self.assertEqual(list(c.classes_), list(m.classes_))
        np.testing.assert_allclose(c.posterior_.predict(X).map_probability, m.predict_proba(X), atol=1e-5)
        self.assertGreater(c.score(X, words), 0.6)
        r = quiet(MLPRegressor(hidden_layer_sizes=(5,), max_iter=500, random_state=0).fit, X, X[:, 0])
        self.assertGreater(quiet(funcgp.Regressor(r).fit, X, X[:, 0]).score(X, X[:, 0]), 0.5)

    def test_cross_validation(self):
        from sklearn.model_selection import cross_val_score

        X, y = rows(60)
        self.assertEqual(len(quiet(cross_val_score, funcgp.Classifier(epochs=20), X, y, cv=3)), 3)

    def test_conventions(self):
        from sklearn.utils import estimator_checks

        # estimator_checks_generator is there since scikit-learn 1.6.
        checks = getattr(estimator_checks, "estimator_checks_generator", None) or functools.partial(
            estimator_checks.check_estimator, generate_only=True
        )
        failed = []
        for estimator in (funcgp.Classifier(epochs=60), funcgp.Regressor(epochs=60)):
            for one, check in checks(estimator):
                name = getattr(check, "func", check).__name__
                try:
                    quiet(check, one)
                except unittest.SkipTest:
                    pass
                except Exception as e:
                    if name not in EXCEPT:
                        failed.append(f"{type(estimator).__name__} {name}: {type(e).__name__}: {str(e)[:300]}")
        self.assertFalse(failed, "\n".join(failed))


if __name__ == "__main__":
    unittest.main()
