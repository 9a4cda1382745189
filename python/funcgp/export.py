"""Modules of PyTorch as ONNX files, and what their optimizers and losses say."""

from __future__ import annotations

import inspect
import io
import warnings
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Tuple

import numpy as np

from .errors import Error, FitWarning


def is_module(model: Any) -> bool:
    """Whether a model is an nn.Module, which needs no torch to say."""
    return any(t.__module__.startswith("torch.nn") and t.__name__ == "Module" for t in type(model).__mro__)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Evaluation mode, and back to the mode of each submodule."""
    was = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for m, training in was:
            m.training = training


def _tensor(module: Any, X: np.ndarray) -> Any:
    """Rows as the module takes them: of the type of its parameters, or as token ids."""
    import torch

    like = next(iter(module.parameters()), torch.zeros(()))
    kinds = [like.dtype if like.is_floating_point() else torch.float32, torch.int64]
    if X.dtype.kind in "iub":
        kinds.reverse()
    whole = X.dtype.kind in "iub" or bool(np.all(X == np.round(X)))
    failed: Optional[Exception] = None
    for kind in kinds:
        if kind == torch.int64 and not whole:
            continue
        x = torch.as_tensor(np.ascontiguousarray(X)).to(device=like.device, dtype=kind)
        try:
            with torch.no_grad():
                module(x[:2])
            return x
        except Exception as e:  # whatever a module raises on rows of another type
            failed = failed or e
    raise Error(
        "bad_rows",
        f"the module does not take rows of shape {list(X.shape[1:])}: {failed}",
        "give X in the shape and type of its input",
        "X",
    ) from failed


def outputs(module: Any, X: np.ndarray) -> np.ndarray:
    """What a module says of rows, in evaluation mode, N×C float64."""
    import torch

    with _evaluating(module), torch.no_grad():
        x = _tensor(module, X)
        made = torch.cat([_only(module(x[i : i + 256])) for i in range(0, len(x), 256)])
    a: np.ndarray = made.double().cpu().numpy()
    return a.reshape(len(X), -1)


def _only(made: Any) -> Any:
    if not hasattr(made, "dim"):
        raise Error(
            "bad_model",
            f"the module returns a {type(made).__name__}",
            "wrap it in a module that returns the tensor of outputs",
            "model",
        )
    return made


def to_onnx(module: Any, X: np.ndarray) -> bytes:
    """The ONNX file of a module in evaluation mode, for any number of rows."""
    import torch

    options = dict(input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}}, opset_version=17)
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:  # torch 2: the exporter by tracing
        options["dynamo"] = False
    with _evaluating(module), warnings.catch_warnings():
        x = _tensor(module, X[:2])
        with torch.no_grad():
            made = _only(module(x))
        if made.dim() not in (1, 2) or len(made) != len(x):
            raise Error(
                "bad_model",
                f"the module makes {list(made.shape)} of {len(x)} rows",
                "wrap it in a module that returns one vector of outputs for each row",
                "model",
            )
        warnings.simplefilter("ignore")  # of the exporter: what it exported is compared with the module
        file = io.BytesIO()
        try:
            torch.onnx.export(module, (x,), file, **options)
            return file.getvalue()
        except Exception as e:  # of many types
            why = str(e).splitlines()[0] if str(e) else type(e).__name__
    # Not from e: while that is kept, torch 1.13 exports nothing more.
    raise Error(
        "not_exported",
        f"torch.onnx.export cannot export the module: {why}",
        "export it to a file yourself, and give its path as model",
        "model",
    )


def decay_of(optimizer: Any) -> Optional[float]:
    """The weight decay of an optimizer of PyTorch as a prior, None where it is none."""
    name = type(optimizer).__name__
    if name == "AdamW" or any(group.get("decoupled_weight_decay") for group in optimizer.param_groups):
        return None  # decoupled: no precision makes these parameters an optimum
    if name not in ("SGD", "Adam", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "LBFGS"):
        return None
    decays = {float(group.get("weight_decay", 0)) for group in optimizer.param_groups}
    if len(decays) > 1:
        warnings.warn(
            FitWarning(f"The groups of the optimizer have several weight decays, {sorted(decays)}.", "decays"),
            stacklevel=3,
        )
        return None
    return decays.pop() or None


_LIKELIHOODS = {
    "MSELoss": "gaussian",
    "CrossEntropyLoss": "categorical",
    "NLLLoss": "categorical",
    "BCEWithLogitsLoss": "bernoulli",
    "BCELoss": "bernoulli",
    "PoissonNLLLoss": "poisson",
}


def loss_of(loss: Any) -> Tuple[Optional[str], str]:
    """The likelihood of a loss of PyTorch, None for one that is none, and its reduction, "mean" or "sum"."""
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    functions = {"cross_entropy": "categorical", "mse_loss": "gaussian", "nll_loss": "categorical"}
    functions.update(
        {
            "binary_cross_entropy": "bernoulli",
            "binary_cross_entropy_with_logits": "bernoulli",
            "poisson_nll_loss": "poisson",
        }
    )
    reduction = getattr(loss, "reduction", "mean")
    if reduction not in ("mean", "sum"):
        raise Error(
            "bad_argument",
            f"the loss has the reduction {reduction!r}",
            'give one of "mean" or "sum", or no loss',
            "loss",
        )
    return _LIKELIHOODS.get(name, functions.get(name)), reduction


def weights_of(loss: Any) -> Any:
    """The weights of the classes in a loss of PyTorch, in the order of the outputs; None where it has none."""
    name, weight, positive = type(loss).__name__, getattr(loss, "weight", None), getattr(loss, "pos_weight", None)
    if name in ("CrossEntropyLoss", "NLLLoss") and weight is not None:
        return weight
    if name == "BCEWithLogitsLoss" and positive is not None:  # one for each of several labels, or of the second class
        return positive if positive.numel() > 1 else [1.0, float(positive)]
    return None


def mean_over(loss: Any, y: np.ndarray) -> float:
    """What the mean of a loss of PyTorch divides its sum over rows by: their number, or the sum of weight=."""
    if type(loss).__name__ in ("CrossEntropyLoss", "NLLLoss") and loss.weight is not None:
        return float(np.asarray(loss.weight.cpu(), np.float64)[y.astype(int)].sum())
    return len(y)
