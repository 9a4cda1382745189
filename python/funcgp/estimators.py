"""Estimators by the conventions of scikit-learn, which need not be installed."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any, Dict, Optional, Sequence

import numpy as np

from . import data, onnx
from .command import flags, run
from .errors import Error
from .folder import folder, remove
from .fitting import fit
from .posterior import Posterior
from .results import Explanation, Prediction


class _Estimator:
    """An estimator by a model.

    model   trained already; or an MLP of scikit-learn, alone or in a Pipeline, that fit trains; or None: fit trains
            a network of its own with hidden units, "64-32" for two layers, in so many epochs
    """

    _kind = ""
    classes_: np.ndarray

    def __init__(
        self,
        model: Any = None,
        *,
        hidden: str = "32",
        epochs: int = 200,
        weight_decay: Optional[float] = None,
        method: Optional[str] = None,
        calibrate: Optional[str] = None,
        seed: int = 0,
    ) -> None:
        self.model, self.hidden, self.epochs, self.weight_decay = model, hidden, epochs, weight_decay
        self.method, self.calibrate, self.seed = method, calibrate, seed

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        """The arguments of the constructor."""
        made = {
            name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"
        }
        if deep and hasattr(self.model, "get_params"):
            made.update({f"model__{name}": value for name, value in self.model.get_params().items()})
        return made

    def set_params(self, **params: Any) -> Any:
        """Sets arguments of the constructor."""
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in self.get_params(deep=False):
                raise Error("bad_argument", f"Invalid parameter {own!r} for estimator {type(self).__name__}", "", own)
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.model is None else type(self.model).__name__})"

    def _fit(self, rows: data.Rows, y: np.ndarray, **options: Any) -> None:
        options.update(weight_decay=self.weight_decay, method=self.method, calibrate=self.calibrate, seed=self.seed)
        if rows.index is not None:
            options["ids"] = data.names_of(rows.index, "ids")
        model = options.pop("model", self.model)
        self.posterior_ = fit(model, rows.x, y, columns=rows.columns, progress=False, **options)
        self.n_features_in_ = rows.x.size // len(rows.x)
        if rows.columns is not None:
            self.feature_names_in_ = np.array(rows.columns, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit

    def _of_sklearn(self, x: np.ndarray, y: np.ndarray) -> Any:
        """The model, or one like it that is trained, where it is scikit-learn's; else None."""
        if not onnx.is_sklearn(self.model):
            return None
        mlp = self.model.steps[-1][1] if hasattr(self.model, "steps") else self.model
        return self.model if hasattr(mlp, "coefs_") else copy.deepcopy(self.model).fit(x, y)

    def _rows(self, X: Any, columns: Optional[Sequence[str]] = None) -> data.Rows:
        """Rows, by the columns of the fit if these had names."""
        if self.model is not None and not onnx.is_sklearn(self.model):
            return data.rows(X, columns=columns)
        if hasattr(X, "toarray"):
            raise TypeError("X is a sparse matrix; give X.toarray()")
        if columns is None and onnx.is_sklearn(self.model):
            columns = onnx.columns_of(self.model)
        rows = data.table(X, columns)
        x = rows.x
        if x.ndim != 2:
            raise Error("bad_rows", f"Expected 2D array, got shape {x.shape}", "Reshape your data", "X")
        if not x.size:
            shape = f"{x.shape[0]} sample(s) and {x.shape[1]} feature(s) (shape={x.shape})"
            raise Error("bad_rows", f"Found array with {shape} while a minimum of 1 is required", "give rows", "X")
        return rows

    def _train(self, x: np.ndarray, y: np.ndarray, outputs: int, likelihood: str) -> bytes:
        """Trains a network of the command: an ONNX file that records how the rows were scaled."""
        home = folder()
        rows, network = home.new(".npz"), home.new(".onnx")
        options = dict(
            arch=f"mlp:{self.hidden}-{outputs}",
            epochs=self.epochs,
            seed=self.seed,
            likelihood=likelihood,
            weight_decay=self.weight_decay,
        )
        try:
            home.write(rows, lambda f: np.savez(f, x=x, y=y))
            run("train", "--data", rows, "--out", network, *flags(options), paths={rows: "X, y"})
            with open(network, "rb") as file:
                return file.read()
        finally:
            remove(rows)
            remove(network)

    def explain(self, row: Any, **options: Any) -> Explanation:
        """As Posterior.explain."""
        self._fitted()
        return self.posterior_.explain(row, **options)

    def _fitted(self) -> None:
        if not hasattr(self, "posterior_"):
            raise _not_fitted(self)

    def _predict(self, X: Any) -> Prediction:
        self._fitted()
        columns = getattr(self, "feature_names_in_", None)
        rows = self._rows(X, None if columns is None else list(columns))
        name = type(self).__name__
        if columns is not None and not rows.named:
            text = f"X does not have valid feature names, but {name} was fitted with feature names"
            warnings.warn(text, stacklevel=3)
        elif columns is None and rows.columns is not None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=3)
        features = rows.x.size // max(1, len(rows.x))
        if features != self.n_features_in_:
            expected = f"{name} is expecting {self.n_features_in_} features as input"
            raise Error("bad_rows", f"X has {features} features, but {expected}", "give all columns", "X")
        return self.posterior_.predict(rows.x)

    n_features_in_: int
    feature_names_in_: np.ndarray
    posterior_: Posterior

    def _more_tags(self) -> Dict[str, Any]:
        return {"requires_y": True, "non_deterministic": False, "multioutput": self._kind == "regressor"}

    def __sklearn_tags__(self) -> Any:
        from sklearn import utils  # scikit-learn asks, so it is there

        classifier = self._kind == "classifier"
        return utils.Tags(
            estimator_type=self._kind,
            target_tags=utils.TargetTags(required=True, multi_output=not classifier),
            input_tags=utils.InputTags(),
            classifier_tags=utils.ClassifierTags() if classifier else None,
            regressor_tags=None if classifier else utils.RegressorTags(),
        )


def _not_fitted(estimator: Any) -> Exception:
    text = f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' before using it."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return Error("not_fitted", text, "call fit")
    made: Exception = NotFittedError(text)
    return made


class Classifier(_Estimator):
    """A classifier by scikit-learn's conventions, whose probabilities are calibrated."""

    _kind = _estimator_type = "classifier"

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Fits the posterior, after training where model is not trained."""
        data.same_rows(X, y)
        rows = self._rows(X)
        x = rows.x
        target = _column(y, len(x))
        if target.dtype.kind == "f" and not np.array_equal(target, np.round(target)):
            raise Error("bad_rows", "Unknown label type: continuous", "give labels, or take a Regressor", "y")
        self.classes_, index = np.unique(target, return_inverse=True)
        if len(self.classes_) < 2:
            raise Error("bad_rows", "y has only one class", "give rows of two classes at least", "y")
        model = self._of_sklearn(x, target)
        if model is not None:
            self.classes_ = np.asarray(model.classes_)
            self._fit(rows, target, model=model, target_names=data.target_names(y))
            return self
        options: Dict[str, Any] = {"class_names": [str(label) for label in self.classes_]}
        if self.model is not None:  # which was trained on classes in an order that it does not say
            data.order(y, self.classes_)
        if self.model is None:
            two = len(self.classes_) == 2
            options["likelihood"] = "bernoulli" if two else "categorical"
            options["model"] = self._train(x, index, 1 if two else len(self.classes_), options["likelihood"])
        self._fit(rows, index, target_names=data.target_names(y), **options)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities, N×C."""
        p = self._predict(X).probability
        assert p is not None
        return p

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))


class Regressor(_Estimator):
    """A regressor by scikit-learn's conventions, with standard deviations of new observations."""

    _kind = _estimator_type = "regressor"

    def fit(self, X: Any, y: Any) -> "Regressor":
        """Fits the posterior, after training where model is not trained."""
        data.same_rows(X, y)
        rows = self._rows(X)
        x = rows.x
        target = data.target(y)
        if target.dtype.kind == "U":
            raise Error("bad_rows", "y are words", "give numbers, or take a Classifier", "y")
        target = target.astype(np.float64)
        if target.ndim != 2 or target.shape[1] == 1:
            target = _column(target, len(x))
        model = self._of_sklearn(x, target)
        if self.model is None:
            model = self._train(x, target, 1 if target.ndim == 1 else target.shape[1], "gaussian")
        names = data.target_names(y)
        model = self.model if model is None else model
        self._fit(rows, target, model=model, likelihood="gaussian", target_names=names)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected observations, N or N×T, and with return_std their standard deviations."""
        p = self._predict(X)
        return (p.observation_mean, p.observation_sd) if return_std else p.observation_mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the mean over targets."""
        y = np.asarray(y, np.float64)
        error = np.average((y - self.predict(X)) ** 2, axis=0, weights=sample_weight)
        spread = np.average((y - np.average(y, axis=0, weights=sample_weight)) ** 2, axis=0, weights=sample_weight)
        return float(np.mean(1 - error / spread))


def _column(y: Any, n: int) -> np.ndarray:
    """Targets of n rows as one column."""
    a = data.target(y)
    if a.ndim == 2 and a.shape[1] == 1:
        a = a[:, 0]
        warnings.warn(_conversion()("A column-vector y was passed when a 1d array was expected."), stacklevel=3)
    if a.ndim != 1 or len(a) != n:
        problem = f"Found input variables with inconsistent numbers of samples: y has shape {a.shape}, X {n} rows"
        raise Error("bad_rows", problem, "give one target for each row", "y")
    return a


def _conversion() -> Any:
    try:
        from sklearn.exceptions import DataConversionWarning
    except ImportError:
        return UserWarning
    return DataConversionWarning
