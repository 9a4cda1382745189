"""Rows and targets as arrays."""

from __future__ import annotations

import ast
import io
import math
import struct
from functools import lru_cache
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .errors import Error


def array(values: Any, name: str) -> np.ndarray:
    """Numbers as an array: of lists, tensors of PyTorch, tables of pandas, sparse matrices of SciPy."""
    if values is None:
        text = f"fit requires {name} to be passed, but the target y is None" if name == "y" else "X is None"
        raise Error("bad_rows", text, f"give {name}", name)
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if hasattr(values, "toarray"):
        values = values.toarray()
    try:
        a = np.asarray(values)
    except ValueError as e:
        raise Error("bad_rows", f"{name} is no array: {e}", "give rows of the same length", name) from e
    if a.dtype.kind == "O" and name == "X":
        try:
            a = a.astype(np.float64)
        except (TypeError, ValueError) as e:
            raise Error("bad_rows", f"X is not numeric: {e}", "encode words as numbers, as for the model", "X") from e
    if a.dtype.kind == "c":
        raise Error("bad_rows", f"{name} has complex numbers: Complex data not supported", "give real numbers", name)
    if a.dtype.kind not in ("f", "i", "u", "b", *("OSU" if name != "X" else "")):
        raise Error("bad_rows", f"{name} has the type {a.dtype}", "give numbers", name)
    if a.dtype.kind == "f" and not np.isfinite(a).all():
        row = int(np.argwhere(~np.isfinite(a))[0][0]) if a.ndim else 0
        raise Error("bad_rows", f"row {row} of {name} has NaN or infinity", "fill it in or leave the row out", name)
    return a.astype(np.int64) if a.dtype.kind == "b" else a


def rows(X: Any, features: Optional[int] = None) -> np.ndarray:
    """Rows of inputs, N×…, each with so many features if these are said; then a single row may be given as it is."""
    a = array(X, "X")
    if features is not None and a.ndim and a.size == features and (len(a) != 1 or a.ndim == 1) and features > 1:
        a = a.reshape(1, -1)
    if a.ndim == 0 or a.ndim == 1 and features not in (None, 1):
        raise Error("bad_rows", f"X has shape {list(a.shape)}", f"give rows of {features or 'several'} numbers", "X")
    if features is not None and len(a) and a.size != len(a) * features:
        raise Error(
            "bad_rows",
            f"the rows of X have {a.size // len(a)} numbers, but the model takes {features}",
            "give all columns",
            "X",
        )
    return a


def targets(
    y: Any, n: int, class_names: Optional[Sequence[Any]]
) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[List[str]]]:
    """Targets as numbers; of words the labels in the order of the outputs; and the names of classes."""
    a = array(y, "y")
    if a.ndim == 2 and a.shape[1] == 1:
        a = a[:, 0]
    if a.ndim not in (1, 2) or len(a) != n:
        raise Error(
            "bad_rows",
            f"y has shape {list(a.shape)}, but X has {n} rows",
            "give one target, or one for each output, for each row",
            "y",
        )
    names = None if class_names is None else [str(name) for name in class_names]
    if a.dtype.kind not in "OSU":
        return a, None, names
    if a.ndim != 1:
        raise Error("bad_rows", f"y are words of shape {list(a.shape)}", "give one word for each row", "y")
    labels = np.unique(a.astype(str)) if names is None else np.asarray(names)
    place = {label: k for k, label in enumerate(labels)}
    unknown = next((word for word in a if str(word) not in place), None)
    if unknown is not None:
        raise Error(
            "bad_rows", f"y has {unknown!r}, which is none of class_names {names}", "name all classes", "class_names"
        )
    return np.array([place[str(word)] for word in a], np.int64), labels, [str(label) for label in labels]


def as_pictures(X: np.ndarray) -> bool:
    """Whether rows are pictures, N×C×H×W from 0 to 1, which pages then show."""
    return (
        X.ndim == 4
        and X.shape[1] in (1, 3)
        and X.dtype.kind == "f"
        and X.size > 0
        and float(X.min()) >= 0
        and float(X.max()) <= 1
    )


@lru_cache(64)
def _header(shape: Tuple[int, ...], kind: str) -> bytes:
    """What comes before the numbers in a .npy file."""
    made = io.BytesIO()
    np.save(made, np.zeros(shape, kind))
    return made.getvalue()[: made.tell() - math.prod(shape) * np.dtype(kind).itemsize]


def npy(x: np.ndarray) -> bytes:
    """A .npy file, as np.save writes it; many of one shape are made in less time."""
    return _header(x.shape, x.dtype.str) + x.tobytes()


@lru_cache(64)
def _layout(header: bytes) -> Tuple[np.dtype, Tuple[int, ...]]:
    said = ast.literal_eval(header.decode())
    descr = said["descr"]
    return np.dtype(descr if isinstance(descr, str) else _fields(descr)), said["shape"]


def _fields(descr: Any) -> Any:
    """The fields of a structured array, which may have fields."""
    return [(name, _fields(of) if isinstance(of, list) else of, *shape) for name, of, *shape in descr]


def of_npy(file: bytes) -> np.ndarray:
    """The array of a .npy file, in less time than np.load takes for its header."""
    size, start = (struct.unpack("<H", file[8:10])[0], 10) if file[6] == 1 else (struct.unpack("<I", file[8:12])[0], 12)
    dtype, shape = _layout(file[start : start + size])
    return np.frombuffer(file, dtype, offset=start + size).reshape(shape)
