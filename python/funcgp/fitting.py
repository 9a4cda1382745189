"""Fitting: from a trained model and its rows to a posterior."""

from __future__ import annotations

import os
import warnings
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import data, export, onnx
from .command import flags, run
from .errors import Error, FitWarning
from .folder import folder, path_of, remove
from .posterior import Posterior


def fit(
    model: Any,
    X: Any,
    y: Any,
    *,
    weight_decay: Optional[float] = None,
    optimizer: Any = None,
    loss: Any = None,
    class_names: Optional[Sequence[Any]] = None,
    columns: Optional[Sequence[str]] = None,
    ids: Optional[Sequence[Any]] = None,
    target_names: Optional[Sequence[str]] = None,
    likelihood: Optional[str] = None,
    class_weights: Any = None,
    label_smoothing: Optional[float] = None,
    row_weights: Any = None,
    noise_variance: Optional[float] = None,
    prior_precision: Optional[float] = None,
    at: Union[str, float, None] = None,
    tune_prior: Optional[str] = None,
    method: Optional[str] = None,
    inducing: Optional[int] = None,
    within: Optional[float] = None,
    select: Optional[str] = None,
    refit: bool = False,
    inference: Optional[str] = None,
    calibrate: Optional[str] = None,
    standardize: Optional[str] = None,
    input_mean: Any = None,
    input_sd: Any = None,
    target_mean: Optional[float] = None,
    target_sd: Optional[float] = None,
    outputs: Optional[Sequence[Any]] = None,
    layers: Union[None, int, str, Sequence[Union[int, str]]] = None,
    freeze: Optional[Sequence[str]] = None,
    learn: Optional[Sequence[str]] = None,
    tie: Optional[Sequence[str]] = None,
    output: Optional[str] = None,
    bind: Optional[Mapping[str, Any]] = None,
    seed: Optional[int] = None,
    workers: Optional[int] = None,
    max_memory: Optional[str] = None,
    progress: Optional[bool] = None,
) -> Posterior:
    """Fits the posterior of a trained model given its training rows.

    model         an nn.Module, in training or evaluation mode; the path of an ONNX file, or its bytes; a fitted
                  MLPClassifier or MLPRegressor of scikit-learn, or a Pipeline of StandardScaler and one of these
    X, y          the rows that it was trained on, as it takes them: N×…; labels, words or numbers: N or N×T. Columns
                  and rows of pandas go by their names, which a posterior knows again in predict and explain
    optimizer     of the training: its weight decay is read, unless weight_decay says it
    loss          of the training: says the likelihood, weights of classes, label smoothing, and whether the loss was a
                  mean over rows or a sum
    class_weights in the loss: {class: weight}, one number for each class in their order, or "balanced"; of several labels
                  a row, of the rows that have each, as pos_weight
    class_names   in the order of the outputs (default the words of y, sorted); of several labels a row, y N×C of 0 and
                  1, the names of these (default target_names)
    columns, ids  names of features and rows (default those of a DataFrame X; columns of these names are taken from it)
    inference     how the posterior is found at that prior: "laplace" (default), or "variational", the Gaussian with the
                  largest lower bound on the evidence, which is evidence()["elbo"]
    target_names  names of the targets (default those of a Series or DataFrame y)
    row_weights   of the rows in the loss, numbers of 0 or more: a row of weight 2 counts as two equal rows
    layers        whose tensors alone are parameters: "last", numbers of layers, or names, such as ["layer4.*", "fc"]
    output, bind  of an ONNX file: the tensor to take, and what is open, such as {"height": 48, "sr": 16000, "state": 0}
    progress      shows what is done by tqdm (default where that is installed)

    The others are those of "gpexplain help fit --all", with their defaults.
    """
    given = dict(
        noise_variance=noise_variance,
        prior_precision=prior_precision,
        at=at,
        tune_prior=tune_prior,
        method=method,
        inducing=inducing,
        within=within,
        select=select,
        refit=refit,
        inference=inference,
        calibrate=calibrate,
        standardize=standardize,
        input_mean=input_mean,
        input_sd=input_sd,
        target_mean=target_mean,
        target_sd=target_sd,
        outputs=outputs,
        layers=layers,
        learn=learn,
        tie=tie,
        output=output,
        seed=seed,
        workers=workers,
        max_memory=max_memory,
    )
    data.same_rows(X, y)
    rows = _rows(model, X, None if columns is None else data.names_of(columns, "columns"))
    if ids is None and rows.index is not None and rows.index.is_unique:
        ids = rows.index
    X, columns = rows.x, rows.columns
    words = onnx.words_of(model) if onnx.is_sklearn(model) else None
    numbers, labels, names = data.targets(y, len(X), words or class_names)
    if words is not None and class_names is not None and data.names_of(class_names, "class_names") != names:
        remedy = "leave class_names out"
        raise Error("bad_argument", f"the model has the classes {names}, not class_names", remedy, "class_names")

    path, content = "", b""
    if isinstance(model, (str, os.PathLike)):
        path = path_of(model)
    elif isinstance(model, (bytes, bytearray)):
        content = bytes(model)
    elif export.is_module(model):
        content = export.to_onnx(model, X)
    elif onnx.is_sklearn(model):
        content, says = onnx.of_sklearn(model, len(X))
        freeze = [*(freeze or []), *says.constants] or None
        if says.classes is not None:
            if labels is None:
                labels = np.asarray(says.classes)
                unknown = ~np.isin(numbers, labels)
                if unknown.any():
                    text = f"row {int(unknown.argmax())} of y is {numbers[unknown.argmax()]}, which is no class of the model"
                    raise Error("bad_rows", text, "give the rows that it was trained on", "y")
                numbers = np.searchsorted(labels, numbers)
            names = names or [str(label) for label in labels]
        likelihood = likelihood or says.likelihood
        weight_decay = says.weight_decay if weight_decay is None else weight_decay
    else:
        remedy = "give an nn.Module, the path of an ONNX file or its bytes, or an MLP of scikit-learn"
        raise Error("bad_model", f"the model is of type {type(model).__name__}", remedy, "model")

    if weight_decay is None and optimizer is not None:
        weight_decay = export.decay_of(optimizer)
    if loss is not None:
        named, reduction = export.loss_of(loss)
        likelihood = likelihood or named
        if class_weights is None:
            class_weights = export.weights_of(loss)
            if numbers.ndim == 2 and isinstance(class_weights, list):  # one pos_weight for all labels
                class_weights = class_weights[1:] * numbers.shape[1]
        if label_smoothing is None:
            label_smoothing = getattr(loss, "label_smoothing", None) or None
        if weight_decay is not None and reduction == "sum":  # of a mean over as many numbers as the loss has
            weight_decay /= (
                numbers.size if likelihood in ("gaussian", "bernoulli", "poisson") else export.mean_over(loss, numbers)
            )
    if standardize is None and input_mean is None and input_sd is None and target_sd is None:
        # An estimator takes rows as they are, and so are pictures: the scalings of well-known data are not tried.
        given["standardize"] = "no" if data.as_pictures(X) or onnx.is_sklearn(model) else None
        if export.is_module(model) and given["standardize"] is None:
            # The module's own outputs on the rows say whether it takes them as they are.
            inputs, targets = _as_taken(model, X, numbers, likelihood)
            if inputs and targets:
                given["standardize"] = "no"
            elif inputs:
                given["input_mean"], given["input_sd"] = 0.0, 1.0

    home = folder()
    network, file, out = path or home.new(".onnx"), home.new(".npz"), home.new(".gp")
    called = {home.name(file): "X, y", home.name(network): path or "the model", home.name(out): "the posterior"}
    arrays = {"x": X if X.ndim == 2 or data.as_pictures(X) else X.reshape(len(X), -1), "y": numbers}
    for name, list_ in (("columns", columns), ("id", ids), ("target_columns", target_names or data.target_names(y))):
        if list_ is not None:
            arrays[name] = np.asarray(data.names_of(list_, {"id": "ids"}.get(name, name)), str)
    called_y = (
        None if numbers.ndim == 1 else list(arrays.get("target_columns", [f"y{k}" for k in range(numbers.shape[1])]))
    )
    if row_weights is not None:
        arrays["row_weights"] = data.row_weights(row_weights, len(X))
        given["row_weights"] = "row_weights"
    given.update(id="id" if ids is not None else None, class_names=names, likelihood=likelihood)
    given.update(weight_decay=weight_decay, freeze=freeze, bind=bind)
    given.update(
        label_smoothing=label_smoothing, class_weights=data.class_weights(class_weights, numbers, names or called_y)
    )
    try:
        if content:
            home.write(network, lambda f: f.write(content))
        home.write(file, lambda f: np.savez(f, **arrays))
        files = dict(out=home.name(out), model=home.name(network), data=home.name(file))
        asked = flags({"bundle": True, **files, **given})
        (made,) = run("fit", *asked, paths=called, progress=progress)
    except BaseException:
        remove(out)
        raise
    finally:
        remove(file)
        if content:
            remove(network)
    posterior = Posterior(out, labels)
    for w in made["fit"]["warnings"]:
        warnings.warn(FitWarning(f"{w['text']} {w['remedy']}".strip(), w["code"]), stacklevel=2)
    if export.is_module(model):
        _compare(posterior, model, X)
    return posterior


def _rows(model: Any, X: Any, columns: Optional[List[str]]) -> data.Rows:
    """The rows with the names of their columns: as an estimator knows them, or as they are asked for, or as they come."""
    twice = sorted({name for name in columns or [] if (columns or []).count(name) > 1})
    if twice:
        raise Error("bad_argument", f"columns has {twice[0]!r} twice", "name each column once", "columns")
    known = onnx.columns_of(model) if onnx.is_sklearn(model) else None
    if known is None and columns is not None and not set(columns).isdisjoint(data.names_in(X)):
        known = columns
    rows = data.rows(X, columns=known)
    if columns is not None:
        rows = rows._replace(columns=columns)
    twice = sorted({name for name in rows.columns or [] if (rows.columns or []).count(name) > 1})
    if twice:
        raise Error("bad_columns", f"X has {twice[0]!r} twice among its columns", "rename one", "X")
    return rows


def _as_taken(module: Any, X: np.ndarray, y: np.ndarray, likelihood: Optional[str]) -> Tuple[bool, bool]:
    """Whether a module, with the rows and the targets as they are, predicts better than a constant: inputs, targets."""
    f = export.outputs(module, X)
    y = y.reshape(len(X), -1)
    with np.errstate(all="ignore"):
        if y.shape[1] == 1 and (y == np.round(y)).all() and likelihood in (None, "bernoulli", "categorical"):
            index = np.unique(y, return_inverse=True)[1].ravel()
            if index.max() < max(2, f.shape[1]):
                share = np.bincount(index) / len(X)
                constant = -(share[share > 0] * np.log(share[share > 0])).sum()
                own = _probabilities(f)[np.arange(len(X)), index]
                return bool(-np.log(own).mean() < constant), True
        several = y.shape[1] > 1 and f.shape == y.shape and y.min() >= 0 and y.max() <= 1
        if several and likelihood in (None, "bernoulli"):
            p, share = _labelled(f), y.mean(0)
            constant = -(_xlogy(share, share) + _xlogy(1 - share, 1 - share)).sum()
            return bool(-(_xlogy(y, p) + _xlogy(1 - y, 1 - p)).sum(1).mean() < constant), True
        f, t = f[:, : y.shape[1]], y.astype(np.float64)
        scale = t.std(0)
        if f.shape != t.shape or not (scale > 0).all():
            return False, False
        better = [bool((((made - t) / scale) ** 2).mean() < 1) for made in (f, np.exp(f), scale * f + t.mean(0))]
        return any(better), better[0] or better[1]


def _compare(posterior: Posterior, module: Any, X: np.ndarray) -> None:
    """Warns where the exported network says something else than the module for training rows, to float32."""
    some = np.unique(np.linspace(0, len(X) - 1, 1000).astype(int))
    p = posterior.predict(X[some])
    said = (p.mean if p.map_probability is None else p.map_probability).reshape(len(some), -1)
    tried = [X[some]]
    flat = X.reshape(len(X), -1).astype(np.float64)
    sd = flat.std(0)
    if X.dtype.kind == "f" and (sd > 0).any():  # the training may have standardized the rows itself
        tried.append(((flat - flat.mean(0)) / np.where(sd > 0, sd, 1)).reshape(X.shape)[some])
    apart = [_apart(said, export.outputs(module, rows), posterior) for rows in tried]
    if min(a.max() for a in apart) > 1e-4:
        worst = int(apart[0].argmax())
        text = (
            f"The exported network differs from the module by {apart[0][worst]:.2g} of its scale on training row "
            f"{some[worst]}: the module does what an export does not hold, such as a choice by values, or it takes "
            "rows that are scaled otherwise. Export it to a file and give its path, or give input_mean and input_sd."
        )
        warnings.warn(FitWarning(text, "not_as_module"), stacklevel=3)


def _apart(said: np.ndarray, made: np.ndarray, posterior: Posterior) -> np.ndarray:
    """How far the outputs of a module are from what was said of each row, relative to their scale."""
    classes = posterior.classes is not None or posterior.labels is not None
    if classes:
        made = _probabilities(made) if posterior.labels is None else _labelled(made)
    if made.shape != said.shape:  # some classes are taken as one, or there are log variances beside the means
        return np.zeros(len(said))
    scale = 1.0 if classes else max(1e-30, float(np.abs(said).max()))
    for t in range(0 if classes else made.shape[1]):  # standardized targets: what was said is in units of the data
        if np.abs(made[:, t] - said[:, t]).max() > 1e-4 * scale and len(made) > 2:
            slope, start = np.polyfit(made[:, t], said[:, t], 1)
            made[:, t] = slope * made[:, t] + start
    return np.asarray(np.abs(said - made).max(1) / scale)


def _labelled(f: np.ndarray) -> np.ndarray:
    """Probabilities of several labels by outputs that are logits, or probabilities already."""
    return f if f.min() >= 0 and f.max() <= 1 else np.asarray(1 / (1 + np.exp(-f)))


def _xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log y, which is 0 for x = 0."""
    return np.where(x == 0, 0.0, x * np.log(np.where(x == 0, 1.0, y)))


def _probabilities(f: np.ndarray) -> np.ndarray:
    """Probabilities of classes by outputs that are logits, or probabilities or their logarithms already."""
    inside = f.min() >= 0 and f.max() <= 1
    if f.shape[1] == 1:
        p = f if inside else 1 / (1 + np.exp(-f))
        return np.hstack([1 - p, p])
    if inside and np.allclose(f.sum(1), 1, atol=1e-4):
        return f
    e = np.exp(f - f.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))
