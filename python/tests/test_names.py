"""Columns go by their names, rows and labels that are missing are refused, and labels keep their order."""

import unittest
import warnings

import numpy as np

import funcgp
from common import network, rows

try:
    import pandas
except ImportError:
    pandas = None

try:
    from sklearn.neural_network import MLPClassifier
except ImportError:
    MLPClassifier = None

COLUMNS = ["u", "v", "w"]


def quiet(f, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **options)


def fit(X, y, outputs=2, **options):
    return quiet(funcgp.fit, network(outputs), X, y, progress=False, **options)


class Frame:
    """As a frame of polars: columns is a list of names, and it is an array by position."""

    def __init__(self, columns):
        self.of, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return self.of[name]

    def __len__(self):
        return len(self.of[self.columns[0]])

    def __array__(self, dtype=None):
        return np.stack(list(self.of.values()), 1)


class Refusals(unittest.TestCase):
    def refused(self, text, f, *args, **options):
        with self.assertRaises(funcgp.Error) as e:
            quiet(f, *args, **options)
        self.assertIn(text, str(e.exception))


class TestArrays(Refusals):
    """With NumPy alone."""

    @classmethod
    def setUpClass(cls):
        cls.X, cls.y = rows()
        cls.a = fit(cls.X, cls.y, columns=COLUMNS)
        cls.want = cls.a.predict(cls.X).probability

    def test_names(self):
        record = np.zeros(40, [("w", float), ("id", "U3"), ("u", float), ("v", np.float32)])
        for j, name in enumerate(COLUMNS):
            record[name] = self.X[:, j]
        swapped = {name: self.X[:, j] for j, name in reversed(list(enumerate(COLUMNS)))}
        for X in (record, swapped, Frame(swapped), [dict(zip("wuv", r[[2, 0, 1]])) for r in self.X]):
            with self.subTest(type(X).__name__):
                np.testing.assert_allclose(self.a.predict(X).probability, self.want, rtol=1e-5)
        one = dict(v=self.X[4, 1], u=self.X[4, 0], w=self.X[4, 2])
        for row in (one, record[4]):
            np.testing.assert_allclose(self.a.explain(row).prediction.probability[0], self.want[4], rtol=1e-5)
        self.refused("no column 'v', but 'age'", self.a.explain, dict(age=1.0, u=1.0, w=2.0))
        self.refused("row 1 of X differs from row 0 in 'v'", self.a.predict, [one, dict(u=1.0, w=2.0)])

    def test_masks(self):
        X = np.ma.array(self.X, mask=np.zeros_like(self.X))
        np.testing.assert_array_equal(self.a.predict(X).probability, self.want)
        X.mask[4, 1] = True
        for masked in (X, list(X), X.tolist(), [list(r) for r in X]):
            self.refused("row 4 of X, column 1", self.a.predict, masked)
        record = np.ma.zeros(3, [(name, float) for name in COLUMNS])
        record["v"].mask = [False, True, False]
        self.refused("row 1 of X, column v is missing", self.a.predict, record)
        self.refused("row 3 of y is missing", fit, self.X, np.ma.array(self.y, mask=np.arange(40) == 3))

    def test_labels(self):
        words = np.array(["no", "yes"], object)[self.y]
        for missing in (None, float("nan"), np.datetime64("NaT"), np.ma.masked):
            y = list(words)
            y[7] = missing
            self.refused("row 7 of y is missing", fit, self.X, y)
            if missing is not np.ma.masked:
                self.refused("row 7 of y is missing", fit, self.X, np.array(y, object))
        self.refused("row 1 of y is", fit, self.X, [1, "a"] * 20)
        self.refused("of the type tuple", fit, self.X, np.array([("a",), "b"] * 20, object))
        self.refused("no name at place 1", fit, self.X, self.y, class_names=["no", None])

    def test_order_of_labels(self):
        """11 classes, whose numbers and words are in another order."""
        y = np.arange(40) % 11
        want = fit(self.X, y, 11).predict(self.X)
        for labels in (y.astype(object), list(y.astype(object)), y.astype(float).astype(object)):
            p = fit(self.X, labels, 11).predict(self.X)
            np.testing.assert_array_equal(p.probability, want.probability)
        for labels in (y.astype(str), y.astype(str).astype(object), [str(k) for k in y]):
            self.refused("give class_names in the order of the outputs", fit, self.X, labels, 11)
            p = fit(self.X, labels, 11, class_names=range(11)).predict(self.X)
            np.testing.assert_array_equal(p.probability, want.probability)

    def test_rows_without(self):
        e = self.a.explain(self.X[0])
        for chosen in ([2, 3], np.array([2, 3]), (i for i in (2, 3)), {np.int8(2), 3}):
            self.assertEqual(e.without(chosen).rows, [2, 3])
        for chosen in ([True, False], np.arange(40) < 2, [np.True_]):
            self.refused("numpy.flatnonzero", e.without, chosen)
        for chosen in ([1.7], [2.0], ["2"], "23", 3, [None], [float("nan")], [10**25], [], {2: 1}):
            self.refused("rows", e.without, chosen)


@unittest.skipIf(pandas is None, "pandas is not installed")
class TestPandas(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.X, cls.y = rows()
        cls.frame = pandas.DataFrame(cls.X, columns=COLUMNS)
        cls.a = fit(cls.frame, pandas.Series(cls.y, name="loan"))
        cls.want = cls.a.predict(cls.frame).probability

    def test_columns(self):
        frame = self.frame
        for X in (
            frame[["w", "u", "v"]],
            frame.assign(id="r", label=self.y)[["id", "w", "label", "v", "u"]],
            pandas.concat([frame, frame.assign(id=1)[["id"]], frame.assign(id=2)[["id"]]], axis=1),
            frame.rename(columns={"u": " u"}),
            frame[["v", "w", "u"]].to_records(),
            frame.astype("Float64")[["v", "w", "u"]],
            frame.astype({"u": "category"}),
            [frame[["v", "w", "u"]].iloc[i] for i in range(40)],
            pandas.DataFrame(self.X),  # without names
        ):
            np.testing.assert_array_equal(self.a.predict(X).probability, self.want)
        for text, X in (
            ("no column 'u', but 'income'", frame.rename(columns={"u": "income"})),
            ("no column 'u', 'v', 'w', but 'a', 'b', 'c'", frame.set_axis(list("abc"), axis=1)),
            ("no column 'v'", frame[["u", "w"]]),
            ("'u' twice", pandas.concat([frame, frame[["u"]]], axis=1)),
            ("no column", pandas.DataFrame(self.X)[[2, 0, 1]]),
            ("have 4 numbers", pandas.DataFrame(np.hstack([self.X, self.X[:, :1]]))),
            ("no column", frame.set_axis(pandas.MultiIndex.from_tuples([("a", c) for c in COLUMNS]), axis=1)),
            ("column u is 'a'", frame.assign(u=pandas.Categorical(["a", "b"] * 20))),
            ("column u of X has the type datetime64", frame.assign(u=pandas.Timestamp("2020-01-01"))),
        ):
            self.refused(text, self.a.predict, X)

    def test_rows(self):
        for row in (self.frame[["w", "v", "u"]].iloc[0], self.frame.assign(id="r").iloc[0], self.frame.iloc[[0]]):
            np.testing.assert_array_equal(self.a.explain(row).prediction.probability[0], self.want[0])
        self.refused("no column 'u', but 'x'", self.a.explain, self.frame.rename(columns={"u": "x"}).iloc[0])
        named = self.frame.set_axis([f"r{i}" for i in range(40)])
        frame = self.a.predict(named[::-1]).frame()
        self.assertEqual(list(frame.index), list(named.index[::-1]))
        y = pandas.Series(self.y, named.index)
        self.assertEqual(fit(named, y).explain(self.X[0]).terms["id"][0][0], "r")
        self.refused("row 0 is 'r0' by the index of X and 'r39' by that of y", fit, named, y[::-1])

    def test_missing(self):
        holes = self.frame.astype("Float64")
        holes.loc[3, "v"] = pandas.NA
        objects = self.frame.astype(object)
        objects.loc[3, "v"] = None
        times = self.frame.astype(object)
        times.loc[3, "v"] = pandas.NaT
        for X in (holes, holes.iloc[[0, 1, 2, 3]], objects, times):
            self.refused("row 3 of X, column v", self.a.predict, X)
        self.refused("row 0 of X, column v is missing", self.a.explain, holes.iloc[3])
        words = pandas.Series(np.array(["no", "yes"])[self.y])
        for kind in (object, "string", "category"):
            y = words.astype(kind)
            y[7] = None
            self.refused("row 7 of y is missing", fit, self.frame, y)
        y = pandas.Series(self.y, dtype="Int64")
        np.testing.assert_array_equal(fit(self.frame, y).predict(self.frame).probability, self.want)
        y[7] = pandas.NA
        self.refused("row 7 of y is missing", fit, self.frame, y)

    def test_categories(self):
        words = np.array(["no", "yes"])[self.y]
        self.refused("'yes', 'no' by its categories", fit, self.frame, pandas.Categorical(words, ["yes", "no"]))
        named = fit(self.frame, pandas.Categorical(words, ["yes", "no"]), class_names=["no", "yes"])
        np.testing.assert_array_equal(named.predict(self.frame).probability, self.want)

    def test_fit(self):
        """Columns that are asked for are taken by name, and others are new names."""
        frame = self.frame.assign(id="r")[["id", "w", "v", "u"]]
        a = fit(frame, self.y, columns=COLUMNS)
        np.testing.assert_array_equal(a.predict(self.frame).probability, self.want)
        a = fit(self.frame, self.y, columns=["a", "b", "c"])
        self.assertEqual(a.model["columns"], ["a", "b", "c"])
        np.testing.assert_array_equal(a.predict(self.X).probability, self.want)
        self.refused("'u' twice", fit, self.frame.set_axis(["u", "u", "w"], axis=1), self.y)
        a = fit(self.frame, pandas.Series(self.X[:, 0], name="price"), 1, loss="mse_loss")
        self.assertEqual(a.model["target"], "price")
        a = fit(self.frame, pandas.DataFrame(self.X[:, :2], columns=["p", "q"]), 2, loss="mse_loss")
        self.assertEqual(a.model["target"], "p, q")

    def test_without_names(self):
        """Rows with names, where those of the fit had none, are taken by their places with a warning."""
        a = fit(self.X, self.y)
        with self.assertWarnsRegex(UserWarning, "taken by their places"):
            p = a.predict(self.frame)
        np.testing.assert_array_equal(p.probability, self.want)
        swapped = pandas.DataFrame(self.X, columns=["x0", "x1", "x2"])[["x2", "x0", "x1"]]
        np.testing.assert_array_equal(a.predict(swapped).probability, self.want)

    def test_one_feature(self):
        rng = np.random.default_rng(0)
        from funcgp import onnx

        nodes = [("MatMul", ["x", "w"], "a"), ("Tanh", ["a"], "b"), ("MatMul", ["b", "v"], "f")]
        file = onnx.model(nodes, [("w", rng.normal(size=(1, 4))), ("v", rng.normal(size=(4, 1)))], 1, 1)
        u = self.frame["u"]
        a = quiet(funcgp.fit, file, u, np.tanh(u), loss="mse_loss", progress=False)
        self.assertEqual((a.model["columns"], a.model["target"]), (["u"], "u"))
        self.assertEqual(len(a.predict(u)), 40)
        self.assertEqual(len(a.predict(self.frame)), 40)
        self.assertEqual(len(a.predict(self.frame.iloc[3])), 1)
        self.refused("no column 'u', but 'v'", a.predict, self.frame["v"])

    def test_estimators(self):
        swapped = self.frame[["w", "u", "v"]].assign(id="r")
        named = [funcgp.Classifier(epochs=5), funcgp.Classifier(network())]
        if MLPClassifier is not None:
            named.append(funcgp.Classifier(MLPClassifier((3,), max_iter=20)))
        for c in named:
            quiet(c.fit, self.frame, self.y)
            want = c.predict_proba(self.frame)
            self.assertEqual((list(c.feature_names_in_), c.n_features_in_), (COLUMNS, 3))
            np.testing.assert_array_equal(c.predict_proba(swapped), want)
            self.refused("no column 'u'", c.predict, self.frame.rename(columns={"u": "x"}))
            with self.assertWarnsRegex(UserWarning, "does not have valid feature names"):
                np.testing.assert_array_equal(c.predict_proba(self.X), want)
            quiet(c.fit, self.X, self.y)
            self.assertFalse(hasattr(c, "feature_names_in_"))
            with self.assertWarnsRegex(UserWarning, "fitted without feature names"):
                c.predict(self.frame)
        r = quiet(funcgp.Regressor(epochs=5).fit, self.frame, self.frame["u"])
        np.testing.assert_array_equal(r.predict(swapped), r.predict(self.frame))

    @unittest.skipIf(MLPClassifier is None, "scikit-learn is not installed")
    def test_trained_by_names(self):
        """The columns and classes of an estimator of scikit-learn are those that it was trained on."""
        words = np.array(["no", "perhaps", "yes"])[np.arange(40) % 3]
        m = quiet(MLPClassifier((3,), max_iter=20, random_state=0).fit, self.frame, words)
        fits = [(self.frame, words), (self.frame[["w", "u", "v"]].assign(id=1), words)]
        one, two = (quiet(funcgp.fit, m, X, y, progress=False).predict(self.frame).probability for X, y in fits)
        np.testing.assert_array_equal(one, two)
        self.refused("no column 'u'", funcgp.fit, m, self.frame.set_axis(list("abc"), axis=1), words)
        self.refused("which is none of", funcgp.fit, m, self.frame, np.where(words == "yes", "maybe", words))
        m = quiet(MLPClassifier((3,), max_iter=20, random_state=0).fit, self.frame, self.y)
        self.refused("which is no class of the model", funcgp.fit, m, self.frame, self.y + 1)


if __name__ == "__main__":
    unittest.main()
