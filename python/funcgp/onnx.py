"""Writing ONNX files without a library: layers one after another."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .errors import Error

# A node is its operator, the names of its inputs and the name of its output.
Node = Tuple[str, Sequence[str], str]


def _varint(n: int) -> bytes:
    made = bytearray()
    while n > 0x7F:
        made.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(made + bytes([n]))


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _bytes(field: int, value: Any) -> bytes:
    data = value.encode() if isinstance(value, str) else bytes(value)
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, a: np.ndarray) -> bytes:
    """A TensorProto of float32."""
    dims = b"".join(_number(1, n) for n in a.shape)
    return dims + _number(2, 1) + _bytes(8, name) + _bytes(9, np.ascontiguousarray(a, "<f4").tobytes())


def _value(name: str, width: int) -> bytes:
    """A ValueInfoProto of N×width float32 numbers."""
    shape = _bytes(1, _bytes(2, "n")) + _bytes(1, _number(1, width))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, 1) + _bytes(2, shape)))


def model(nodes: Sequence[Node], constants: Sequence[Tuple[str, np.ndarray]], inputs: int, outputs: int) -> bytes:
    """An ONNX file of a graph from x, N×inputs, to f, N×outputs."""
    graph = b""
    for operator, taken, made in nodes:
        named = b"".join(_bytes(1, name) for name in taken) + _bytes(2, made)
        graph += _bytes(1, named + _bytes(3, made) + _bytes(4, operator))
    graph += _bytes(2, "funcgp") + b"".join(_bytes(5, _tensor(name, a)) for name, a in constants)
    graph += _bytes(11, _value("x", inputs)) + _bytes(12, _value("f", outputs))
    return _number(1, 8) + _bytes(2, "funcgp") + _bytes(7, graph) + _bytes(8, _number(2, 17))


_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


class Says(NamedTuple):
    """What an estimator says of its training."""

    constants: List[str]  # of its file, which are no parameters
    classes: Optional[np.ndarray]  # labels in the order of the outputs, None of a regression
    likelihood: str
    weight_decay: Optional[float]


def of_sklearn(estimator: Any, n: int) -> Tuple[bytes, Says]:
    """The network of an MLPClassifier or MLPRegressor fitted to n rows, alone or after StandardScalers in a Pipeline.

    The outputs of the file are logits.
    """
    *scalers, mlp = _steps(estimator)
    if not hasattr(mlp, "coefs_"):
        remedy = "fit it first, or give it to funcgp.Classifier or Regressor"
        raise Error("bad_model", "the estimator is not fitted", remedy, "model")
    nodes: List[Node] = []
    constants: List[Tuple[str, np.ndarray]] = []
    at = "x"

    def add(operator: str, made: str, constant: Any = None) -> None:
        nonlocal at
        taken = [at]
        if constant is not None:
            constants.append((made, np.asarray(constant)))
            taken.append(constants[-1][0])
        at = f"{made}.{operator}"
        nodes.append((operator, taken, at))

    for k, scaler in enumerate(scalers):
        for operator, constant in (("Sub", scaler.mean_), ("Div", scaler.scale_)):
            if constant is not None:
                add(operator, f"scaler{k}.{operator}", constant)
    frozen = [name for name, _ in constants]
    last = len(mlp.coefs_) - 1
    for k, (weight, bias) in enumerate(zip(mlp.coefs_, mlp.intercepts_)):
        add("MatMul", f"layer{k}.weight", weight)
        add("Add", f"layer{k}.bias", bias)
        if k < last and mlp.activation != "identity":
            add(_ACTIVATIONS[mlp.activation], f"layer{k}")
    operator, taken, _ = nodes[-1]
    nodes[-1] = (operator, taken, "f")
    classes = getattr(mlp, "classes_", None)
    likelihood = "gaussian" if classes is None else "categorical" if len(classes) > 2 else "bernoulli"
    outputs = mlp.coefs_[-1].shape[1]
    # Its steps go by half the sum of squares of a row, where MSELoss is their mean.
    decay = mlp.alpha / n * (2 / outputs if classes is None else 1)
    if classes is not None and outputs > 1 and mlp.out_activation_ == "logistic":  # several labels a row, by their sum
        classes, likelihood, decay = None, "bernoulli", mlp.alpha / n / outputs
    file = model(nodes, constants, mlp.coefs_[0].shape[0], outputs)
    return file, Says(frozen, classes, likelihood, decay or None)


def _steps(estimator: Any) -> List[Any]:
    """The steps of a Pipeline, or the estimator."""
    if not hasattr(estimator, "steps"):
        return [estimator]
    return [step for _, step in estimator.steps if step not in (None, "passthrough")]


def columns_of(estimator: Any) -> Optional[List[str]]:
    """The names of the columns that an estimator was fitted to, None where they had none or it is not fitted."""
    names = getattr(_steps(estimator)[0], "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def words_of(estimator: Any) -> Optional[List[str]]:
    """The classes of an estimator where they are words, else None."""
    classes = getattr(_steps(estimator)[-1], "classes_", None)
    if classes is None or not all(isinstance(label, str) for label in classes):
        return None
    return [str(label) for label in classes]


def is_sklearn(estimator: Any) -> bool:
    """Whether of_sklearn takes an estimator once it is fitted."""
    steps = _steps(estimator)
    return type(steps[-1]).__name__ in ("MLPClassifier", "MLPRegressor") and all(
        type(s).__name__ == "StandardScaler" for s in steps[:-1]
    )
