"""Rows, targets and names as arrays: by name where they have names, and nothing that is missing."""

from __future__ import annotations

import ast
import io
import math
import operator
import struct
import unicodedata
import warnings
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .errors import Error

_ma: Any = np.ma  # which has no types


def _place(at: Sequence[int], name: str, columns: Optional[Sequence[str]] = None) -> str:
    """Where an element of an array of that name is, in words."""
    if len(at) == 0:
        return name
    text = f"row {at[0]} of {name}"
    if len(at) == 2:
        text += f", column {columns[at[1]] if columns is not None else at[1]}"
    elif len(at) > 2:
        text += f", element {[int(k) for k in at[1:]]}"
    return text


def _missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT, pandas.NA or masked."""
    if value is None or value is _ma.masked or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False


def _refuse_missing(place: str) -> Error:
    argument = "y" if " of y" in place else "X"
    return Error("bad_rows", f"{place} is missing", "fill it in or leave the row out", argument)


def _first(wrong: np.ndarray) -> List[int]:
    return [int(k) for k in np.argwhere(wrong)[0]]


def array(values: Any, name: str, columns: Optional[Sequence[str]] = None) -> np.ndarray:
    """Numbers as an array: of lists, tensors of PyTorch, sparse matrices of SciPy, columns of pandas.

    Targets, of the name y, may be words: an array of str. What is missing or masked is refused.
    """
    if values is None:
        text = f"fit requires {name} to be passed, but the target y is None" if name == "y" else "X is None"
        raise Error("bad_rows", text, f"give {name}", name)
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if hasattr(values, "toarray"):
        values = values.toarray()
    if isinstance(values, (list, tuple)) and any(_ma.isMaskedArray(v) for v in values):
        values = _ma.stack([_ma.asarray(v) for v in values])
    if _ma.isMaskedArray(values):
        mask = _ma.getmaskarray(values)
        if mask.any():
            raise _refuse_missing(_place(_first(mask), name, columns))
        values = values.data
    try:
        words = name == "y" and isinstance(values, (list, tuple)) and any(isinstance(v, str) for v in values)
        a = np.asarray(values, object if words else None)  # which would make words of what is missing
    except (ValueError, TypeError, OverflowError) as e:
        raise Error("bad_rows", f"{name} is no array: {e}", "give rows of the same length", name) from e
    if a.dtype.kind == "O":
        a = _words_or_numbers(a) if name == "y" else _numbers(a, columns)
    if a.dtype.kind == "c":
        raise Error("bad_rows", f"{name} has complex numbers: Complex data not supported", "give real numbers", name)
    if a.dtype.kind not in ("f", "i", "u", "b", *("SU" if name == "y" else "")):
        raise Error("bad_rows", f"{name} has the type {a.dtype}", "give numbers", name)
    if a.dtype.kind == "f" and not np.isfinite(a).all():
        place = _place(_first(~np.isfinite(a)), name, columns)
        raise Error("bad_rows", f"{place} has NaN or infinity", "fill it in or leave the row out", name)
    if a.dtype.kind == "S":
        a = a.astype(str)
    return a.astype(np.int64) if a.dtype.kind == "b" else a


def _numbers(a: np.ndarray, columns: Optional[Sequence[str]]) -> np.ndarray:
    """Objects that are numbers."""
    try:
        made: np.ndarray = a.astype(np.float64)
        return made
    except (TypeError, ValueError, OverflowError) as e:
        for at in np.ndindex(a.shape):
            if _missing(a[at]):
                raise _refuse_missing(_place(at, "X", columns)) from e
            try:
                float(a[at])
            except (TypeError, ValueError, OverflowError) as why:
                text = f"X is not numeric: {_place(at, 'X', columns)} is {str(a[at])[:40]!r} ({why})"
                raise Error("bad_rows", text, "encode words as numbers, as for the model", "X") from e
        raise Error("bad_rows", f"X is not numeric: {e}", "encode words as numbers, as for the model", "X") from e


def _words_or_numbers(a: np.ndarray) -> np.ndarray:
    """Objects that are all words, or all numbers."""
    kinds = set()
    for at in np.ndindex(a.shape):
        value = a[at]
        if _missing(value):
            raise _refuse_missing(_place(at, "y"))
        number = isinstance(value, (Real, Decimal, np.bool_))
        if not number and not isinstance(value, str):
            text = f"{_place(at, 'y')} is {str(value)[:40]!r}, of the type {type(value).__name__}"
            raise Error("bad_rows", text, "give numbers, or words", "y")
        kinds.add(number)
        if len(kinds) > 1:
            text = f"y has numbers and words: {_place(at, 'y')} is {value!r}"
            raise Error("bad_rows", text, "give the one or the other", "y")
    if kinds == {False}:
        return a.astype(str)
    try:
        whole = all(float(value).is_integer() for value in a.flat)
        made: np.ndarray = a.astype(np.int64 if whole else np.float64)
    except OverflowError as e:
        raise Error("bad_rows", f"y has a number that is too large: {e}", "give smaller numbers", "y") from e
    return made


class _Table(NamedTuple):
    """What has columns with names."""

    names: List[str]
    column: Callable[[int], Any]
    index: Any = None  # the names of its rows, of pandas
    unnamed: bool = False  # the names are the places 0, 1, …
    whole: Any = None  # a function from places to all of these columns at once


def is_series(values: Any) -> bool:
    """Whether values are a Series of pandas."""
    return hasattr(values, "iloc") and hasattr(values, "index") and not hasattr(values, "columns")


def _counted(labels: Any) -> bool:
    """Whether labels of pandas are the numbers 0, 1, … in their order, as they are where nobody gave any."""
    return getattr(labels.dtype, "kind", "O") in "iu" and bool(np.array_equal(labels, np.arange(len(labels))))


def index_of(values: Any) -> Any:
    """The names of rows of pandas, None where they have none."""
    index = getattr(values, "index", None) if hasattr(values, "iloc") else None
    return None if index is None or _counted(index) else index


def _table(X: Any, columns: Optional[Sequence[str]], features: Optional[int]) -> Optional[_Table]:
    """X by its columns, None of what has no names. A Series of pandas is a row, or the only feature."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        kinds = [getattr(t, "kind", "O") if isinstance(t, np.dtype) else "O" for t in X.dtypes]
        plain = all(kind in "fiu" for kind in kinds)
        names = [str(name) for name in X.columns]
        whole = (lambda places: X.iloc[:, places].to_numpy()) if plain else None
        return _Table(names, lambda j: _of_pandas(X.iloc[:, j]), X.index, _counted(X.columns), whole)
    if is_series(X):
        if features == 1 and not (columns and columns[0] in map(str, X.index) and str(X.name) != columns[0]):
            index, name = X.index, X.name
            return _Table([str(name)], lambda j: _of_pandas(X), index, name is None)
        return _Table([str(name) for name in X.index], lambda j: [X.iloc[j]], None, _counted(X.index))
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        rows = _ma.atleast_1d(X) if _ma.isMaskedArray(X) else np.atleast_1d(X)
        return _Table(list(X.dtype.names), lambda j: rows[X.dtype.names[j]])
    if isinstance(X, np.void) and X.dtype.names is not None:
        return _Table(list(X.dtype.names), lambda j: [X[j]])
    if isinstance(X, Mapping):
        given = list(X)
        alone = not any(hasattr(v, "__len__") and not isinstance(v, str) for v in X.values())
        return _Table([str(k) for k in given], lambda j: [X[given[j]]] if alone else X[given[j]])
    if isinstance(X, (list, tuple)) and len(X) and all(isinstance(r, Mapping) or is_series(r) for r in X):
        return _records(X)
    found: Any = getattr(X, "column_names", None) or getattr(X, "columns", None)  # pyarrow, polars
    if isinstance(found, (list, tuple)) and hasattr(X, "__getitem__"):
        return _Table([str(name) for name in found], lambda j: X[found[j]])
    return None


def names_in(X: Any) -> List[str]:
    """The names of the columns that X has, none where they are places alone."""
    t = _table(X, None, 1)
    return [] if t is None or t.unnamed else t.names


def _records(X: Sequence[Any]) -> _Table:
    """Rows that each have names, which must be the same."""
    names = [str(name) for name in (X[0].index if is_series(X[0]) else X[0])]
    rows = [{str(k): v for k, v in r.items()} for r in X]
    for i, row in enumerate(rows):
        if len(X[i]) != len(row) or set(row) != set(names):
            apart = sorted(set(row) ^ set(names)) or ["a name that is there twice"]
            raise Error("bad_columns", f"row {i} of X differs from row 0 in {_quoted(apart)}", "give all alike", "X")
    return _Table(names, lambda j: [row[names[j]] for row in rows])


def _of_pandas(series: Any) -> Any:
    """A column as an array. Types that may have missing values are objects then, which are refused."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return series.to_numpy()
    return _ma.array(np.asarray(series, object), mask=np.asarray(series.isna()))


def _quoted(names: Iterable[str]) -> str:
    made = [repr(name) for name in names]
    return ", ".join(made[:12] + ["..."] * (len(made) > 12))


def _key(name: str) -> str:
    """What is compared of a name: not how its accents are encoded, nor the spaces around it."""
    return unicodedata.normalize("NFC", name).strip()


def is_default(columns: Sequence[str]) -> bool:
    """Whether columns are called as the command calls those without names."""
    return list(columns) in ([f"x{j}" for j in range(len(columns))], [str(j) for j in range(len(columns))])


def _places(table: _Table, columns: Sequence[str], name: str) -> List[int]:
    """Where a table has these columns."""
    keys, wanted = [_key(n) for n in table.names], [_key(n) for n in columns]
    if keys == wanted:
        return list(range(len(keys)))
    at = {key: j for j, key in enumerate(keys)}
    missing = [columns[j] for j, key in enumerate(wanted) if key not in at]
    if missing:
        alike = len(keys) == len(wanted)
        if alike and table.unnamed:
            return list(range(len(keys)))
        if alike and len(missing) == len(wanted) and is_default(columns):
            text = f"{name} has names of columns, {_quoted(table.names)}, and the training rows had none"
            warnings.warn(f"{text}: they are taken by their places.", stacklevel=4)
            return list(range(len(keys)))
        if table.unnamed:
            raise _width(len(keys), len(wanted), name)
        unknown = [n for n, key in zip(table.names, keys) if key not in set(wanted)]
        others = f", but {_quoted(unknown)}" if unknown else ""
        remedy = f"give all of {_quoted(columns)}, in any order and among others"
        raise Error("bad_columns", f"{name} has no column {_quoted(missing)}{others}", remedy, name)
    twice = sorted({n for n, key in zip(columns, wanted) if keys.count(key) > 1 or wanted.count(key) > 1})
    if twice:
        raise Error("bad_columns", f"{name} has {_quoted(twice)} twice among its columns", "rename one", name)
    return [at[key] for key in wanted]


def _width(got: int, want: int, name: str) -> Error:
    return Error(
        "bad_rows", f"the rows of {name} have {got} numbers, but the model takes {want}", "give all columns", name
    )


class Rows(NamedTuple):
    """Rows of inputs, with the names that they came with."""

    x: np.ndarray  # N×…
    columns: Optional[List[str]]  # None where they have none
    index: Any  # of pandas, None where it is the numbers 0, 1, …
    named: bool = False  # the columns were found by name


def table(X: Any, columns: Optional[Sequence[str]] = None, features: Optional[int] = None, name: str = "X") -> Rows:
    """Rows of whatever has columns with names, in the order of these columns, or else as array has them."""
    t = _table(X, columns, features)
    if t is None:
        return Rows(array(X, name), None, None)
    places = list(range(len(t.names))) if columns is None else _places(t, columns, name)
    names = [t.names[j] for j in places] if columns is None else list(columns)
    given = None if t.unnamed else names
    index = None if t.index is None or _counted(t.index) else t.index
    if t.whole is not None:
        x = array(t.whole(places), name, names)
    else:
        made = [_column(t.column(j), k, names) for k, j in enumerate(places)]
        if len({len(c) for c in made}) > 1:
            raise Error("bad_rows", f"the columns of {name} differ in length", "give rows of the same length", name)
        x = np.stack(made, 1) if made else np.empty((len(X), 0))
    return Rows(x, given, index, given is not None and columns is not None)


def _column(values: Any, k: int, names: Sequence[str]) -> np.ndarray:
    """One column of numbers, which errors call by its name."""
    values = values if _ma.isMaskedArray(values) else np.asarray(values)
    if values.ndim != 1:
        raise Error("bad_rows", f"column {names[k]} of X has shape {list(values.shape)}", "give one number a row", "X")
    if values.dtype.kind not in "fiubOc":
        text = f"column {names[k]} of X has the type {values.dtype}"
        raise Error("bad_rows", text, "give numbers", "X")
    return array(values[:, None], "X", names[k : k + 1])[:, 0]


def rows(X: Any, features: Optional[int] = None, columns: Optional[Sequence[str]] = None) -> Rows:
    """Rows of inputs, N×…, each with so many features if these are said; then a single row may be given as it is."""
    made = table(X, columns, features or 1)
    a = made.x
    if features is not None and a.ndim and a.size == features and (len(a) != 1 or a.ndim == 1) and features > 1:
        a = a.reshape(1, -1)
    if a.ndim == 0 or a.ndim == 1 and features not in (None, 1):
        raise Error("bad_rows", f"X has shape {list(a.shape)}", f"give rows of {features or 'several'} numbers", "X")
    if features is not None and len(a) and a.size != len(a) * features:
        raise _width(a.size // len(a), features, "X")
    return made._replace(x=a)


def names_of(values: Any, name: str) -> List[str]:
    """Names as words: of classes, columns or rows."""
    made = []
    for k, value in enumerate([values] if isinstance(values, str) else values):
        if _missing(value):
            raise Error("bad_argument", f"{name} has no name at place {k}", "give one", name)
        text = str(value)
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise Error("bad_argument", f"{name} has {text!r}, which is no text", "take the character out", name)
        made.append(text)
    return made


def target_names(y: Any) -> Optional[List[str]]:
    """The names of targets of pandas, None where they have none."""
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        return None if _counted(y.columns) else names_of(y.columns, "y")
    name = getattr(y, "name", None) if hasattr(y, "dtype") else None
    return None if name is None else names_of([name], "y")


def target(y: Any) -> np.ndarray:
    """Targets as they are, N or N×T: numbers, or words as str."""
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        return target(y.iloc[:, 0])[:, None] if y.shape[1] == 1 else table(y, name="y").x
    if hasattr(y, "isna") and hasattr(y, "dtype"):  # a Series, a Categorical or another array of pandas
        y = _of_pandas(y) if hasattr(y, "to_numpy") else _ma.array(np.asarray(y, object), mask=np.asarray(y.isna()))
    return array(y, "y")


def order(y: Any, labels: np.ndarray) -> None:
    """Refuses words whose order as classes is not told: sorted as words they are in another order than as what they are.

    labels are the words, sorted.
    """
    if labels.dtype.kind != "U":
        return
    if hasattr(y, "iloc") and hasattr(y, "columns") and y.shape[1] == 1:
        y = y.iloc[:, 0]
    categories = getattr(getattr(y, "cat", y), "categories", None)
    other, what = labels.tolist(), ""
    if categories is not None:
        other, what = [str(c) for c in categories if str(c) in set(labels)], "its categories"
    else:
        try:
            other, what = sorted(labels.tolist(), key=float), "numbers"
        except ValueError:
            return
    if other != labels.tolist():
        text = f"the classes of y are {_quoted(other)} by {what}, and {_quoted(labels)} as words"
        raise Error("bad_argument", text, "give class_names in the order of the outputs", "class_names")


def targets(
    y: Any, n: int, class_names: Optional[Sequence[Any]]
) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[List[str]]]:
    """Targets as numbers; of words the labels in the order of the outputs; and the names of classes."""
    a = target(y)
    a = a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a
    if a.ndim not in (1, 2) or len(a) != n:
        raise Error(
            "bad_rows",
            f"y has shape {list(a.shape)}, but X has {n} rows",
            "give one target, or one for each output, for each row",
            "y",
        )
    names = None if class_names is None else names_of(class_names, "class_names")
    if a.dtype.kind != "U":
        return a, None, names
    if a.ndim != 1:
        raise Error("bad_rows", f"y are words of shape {list(a.shape)}", "give one word for each row", "y")
    if names is None:
        labels = np.unique(a)
        order(y, labels)
    else:
        labels = np.asarray(names)
    place = {str(label): k for k, label in enumerate(labels)}
    unknown = next((word for word in a if str(word) not in place), None)
    if unknown is not None:
        text = f"y has {str(unknown)!r}, which is none of class_names {names}"
        raise Error("bad_rows", text, "name all classes", "class_names")
    return np.array([place[str(word)] for word in a], np.int64), labels, names_of(labels, "y")


def class_weights(given: Any, y: np.ndarray, names: Optional[Sequence[str]]) -> Any:
    """Weights of classes as the command takes them: of a dict by class, or of one number for each class in their order."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return [f"{name}={float(weight)!r}" for name, weight in given.items()]
    weights = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, np.float64).ravel()
    classes: List[Any] = list(range(len(weights))) if names is None else list(names)
    if names is None and len(np.unique(y)) == len(weights):
        classes = [int(label) for label in np.unique(y)]
    if len(classes) != len(weights):
        text = f"class_weights has {len(weights)} numbers, and the classes are {classes}"
        raise Error("bad_argument", text, "give one for each", "class_weights")
    return [f"{name}={weight!r}" for name, weight in zip(classes, weights.tolist())]


def row_weights(given: Any, n: int) -> np.ndarray:
    """Weights of n rows as numbers of 0 or more."""
    weights = array(given, "row_weights").astype(np.float64).reshape(-1)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if len(weights) != n or wrong.any():
        text = f"{len(weights)} row_weights for {n} rows"
        if wrong.any():
            text = f"row_weights of row {int(wrong.argmax())} is {weights[wrong.argmax()]}"
        raise Error("bad_argument", text, "give a number of 0 or more for each row", "row_weights")
    return weights


def same_rows(X: Any, y: Any) -> None:
    """Refuses targets of other rows than X, or in another order, where pandas names the rows of both."""
    x, of_y = index_of(X), index_of(y)
    if x is None or of_y is None or len(x) != len(of_y) or x.equals(of_y):
        return
    i = next((k for k in range(len(x)) if x[k] != of_y[k]), 0)
    text = f"row {i} is {x[i]!r} by the index of X and {of_y[i]!r} by that of y"
    raise Error("bad_rows", text, "give y.loc[X.index], or y.to_numpy() if they are the same rows", "y")


def integer(value: Any, name: str) -> int:
    """A whole number of Python or NumPy."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        made = operator.index(value)
    except TypeError:
        raise Error("bad_argument", f"{name} is {str(value)[:40]!r}", "give a whole number", name) from None
    if abs(made) >= 1 << 53:
        raise Error("bad_argument", f"{name} is {str(made)[:40]}", "give a smaller number", name)
    return made


def row_numbers(values: Any) -> List[int]:
    """Numbers of training rows, which are not chosen by True and False."""
    if not hasattr(values, "__iter__") or isinstance(values, (str, bytes, Mapping)):
        raise Error("bad_without", f"rows is {str(values)[:40]!r}", "give a list of numbers of rows", "rows")
    made = []
    for value in values:
        try:
            if isinstance(value, (bool, np.bool_)):
                raise Error("bad_without", "rows are True and False", "give numpy.flatnonzero(rows)", "rows")
            made.append(integer(value, "rows"))
        except Error as e:
            if e.code == "bad_without":
                raise
            text = f"rows has {str(value)[:40]!r}, which is no number of a row"
            raise Error("bad_without", text, "give whole numbers, as in terms.index", "rows") from None
    if not made:
        raise Error("bad_without", "rows is empty", "name one at least", "rows")
    return made


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
