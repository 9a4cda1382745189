"""A posterior: open one, ask it, save it."""

from __future__ import annotations

import io
import json
import math
import os
import urllib.parse
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import data
from .command import flags, run, write
from .errors import Error
from .folder import folder, path_of, remove
from .process import Process
from .results import Explanation, Prediction, Report, Without

_NPY = "application/x-npy"
_NORMAL = 1.959963984540054  # deviations that hold .95 of a normal distribution


def open(path: Union[str, "os.PathLike[str]"]) -> "Posterior":  # noqa: A001, as gzip.open
    """Opens the file of a posterior, which save or "gpexplain fit --bundle" wrote."""
    path = path_of(path)
    if not os.path.isfile(path):
        raise Error("no_file", f"there is no file {path}", "give the path of a posterior that save wrote", "path")
    posterior = Posterior(os.path.abspath(path))
    posterior.model  # starts the server, so that a wrong file is an error here
    return posterior


def _loads(file: bytes, labels: Optional[np.ndarray]) -> "Posterior":
    path = folder().new(".gp")
    folder().write(path, lambda f: f.write(file))
    return Posterior(path, labels)


class Posterior:
    """What is known of the function that a network is, given its training rows. fit and open make one.

    A process of the command answers for it, which ends with close, with the last reference, or with this process.
    """

    def __init__(self, file: str, labels: Optional[np.ndarray] = None) -> None:
        self._file, self._labels = file, labels
        self._process = Process(file)
        self._model: Optional[Dict[str, Any]] = None
        self._outputs: Optional[int] = None
        self._closed = False
        own = os.path.dirname(file) == folder().path
        self._end = weakref.finalize(self, _end, self._process, file if own else None, os.getpid())

    @property
    def model(self) -> Dict[str, Any]:
        """What it answers from: classes, columns, shape of inputs, method, warnings (GET /v1/model)."""
        if self._model is None:
            self._model = self._server.json("/v1/model")
        return self._model

    @property
    def classes(self) -> Optional[List[str]]:
        """Names of the classes in the order of probabilities, None of a regression."""
        return self.model.get("classes")

    @property
    def labels(self) -> Optional[List[str]]:
        """Names of the labels of which a row has any number, in the order of probabilities; None of other targets."""
        return self.model.get("labels")

    @property
    def warnings(self) -> List[str]:
        """What does not go together in the fit."""
        return [f"{w['text']} {w['remedy']}".strip() for w in self.model["warnings"]]

    @property
    def _server(self) -> Process:
        if self._closed:
            raise Error("closed", "the posterior is closed", "open it again")
        return self._process

    @property
    def _features(self) -> int:
        return math.prod(int(n) for n in self.model["shape"])

    def predict(self, X: Any, *, coverage: Optional[float] = None) -> Prediction:
        """Predicts rows: calibrated probabilities or means, how sure they are, and how unlike the training rows.

        coverage  for intervals, and sets of classes, that hold the target with about this probability whatever its
                  distribution, by leave-one-out predictions of the training rows; otherwise intervals are normal
        """
        x, index = self._rows(X)
        if not len(x):
            raise Error("bad_rows", "X has no rows", "give one at least", "X")
        path = "/v1/predict" if coverage is None else f"/v1/predict?coverage={float(coverage)!r}"
        size = max(1, self._most())
        starts = range(0, len(x), size)
        parts = [x[i : i + size] for i in starts]
        if len(parts) == 1:
            table = self._table(path, x)
        else:
            with ThreadPoolExecutor(4) as pool:
                table = np.concatenate(list(pool.map(self._table, [path] * len(parts), parts, starts)))
        return self._prediction(lambda *names: _member(table, names), coverage is not None, index)

    def _rows(self, X: Any) -> Tuple[np.ndarray, Any]:
        """Rows of numbers, N×D, in the order of its columns: float64, or grey levels of pictures as they are; and the
        index of pandas."""
        rows = data.rows(X, self._features, self.model.get("columns"))
        x = rows.x
        kind = np.uint8 if x.dtype == np.uint8 and self.model["images"] else np.float64
        return np.ascontiguousarray(x.reshape(len(x), self._features), kind), rows.index

    def _most(self) -> int:
        """The rows that a request may have, by their numbers, those of the covariance among them, and its bytes."""
        if self._outputs is None:
            self._outputs = self._table("/v1/predict", np.zeros((1, self._features)))["mean"].size
        return min(1000, (1 << 20) // (self._features + self._outputs**2), ((8 << 20) - 4096) // (8 * self._features))

    def _table(self, path: str, x: np.ndarray, first: int = 0) -> np.ndarray:
        """Predictions of the rows from first on, which one request holds, as a structured array."""
        try:
            answer = self._server.ask("POST", path, data.npy(x), Content_Type=_NPY, Accept=_NPY + "; fields=all")
        except Error as e:
            raise e.at(first) from None
        return data.of_npy(answer)

    def _prediction(self, member: Callable[..., Any], covered: bool = False, index: Any = None) -> Prediction:
        """Predictions whose members, N×…, are those of the server's answer."""

        def squeezed(a: Any) -> Any:
            return a[:, 0] if a is not None and a.ndim == 2 and a.shape[1] == 1 else a

        mean, calibrated = member("mean"), self.model["scale"] is not None
        probability = member("probability")
        common: Dict[str, Any] = dict(
            mean=mean,
            covariance=member("covariance").reshape(len(mean), mean.shape[1], mean.shape[1]),
            scale=float(self.model["scale"]) if calibrated else 1.0,
            temperature=float(self.model["temperature"]) if calibrated else 1.0,
            shift=np.array(self.model.get("shift", np.zeros(mean.shape[1]))),
            novelty=_novelty(member, len(mean)),
            classes=self.classes,
            labels=self.labels,
            index=index,
        )
        if probability is not None:
            return Prediction(
                class_=None if self.labels else self._labels_of(probability.argmax(1), member("class")),
                probability=probability,
                probability_sd=member("probability_sd"),
                map_probability=member("map_probability"),
                set=self._sets(member("set")) if covered else None,
                **common,
            )
        expected, sd = squeezed(member("observation_mean")), squeezed(member("observation_sd"))
        if covered:
            interval = member("interval")
        else:
            interval = np.stack([expected - _NORMAL * sd, expected + _NORMAL * sd], -1)
        function_sd = squeezed(member("function_sd"))
        return Prediction(
            observation_mean=expected, observation_sd=sd, function_sd=function_sd, interval=interval, **common
        )

    def _labels_of(self, best: np.ndarray, numbers: Optional[np.ndarray]) -> np.ndarray:
        """Classes as they are in y: words, or else numbers; best are their places."""
        assert numbers is not None
        labels, names = self._labels, self.classes
        if labels is None or names is None or len(labels) != len(names):  # some classes may be taken as one
            labels = None
            if names is not None and names[best[0]] != format(numbers[0], "g"):
                labels = np.array(names)
        if labels is not None:
            made: np.ndarray = labels[best]
            return made
        whole = bool(np.all(numbers == np.round(numbers)))
        return np.asarray(numbers, np.int64 if whole else np.float64)

    def _sets(self, numbers: Optional[np.ndarray]) -> Optional[List[List[Any]]]:
        """Sets of classes by their labels, N×C with NaN where a set is smaller."""
        if numbers is None:
            return None
        sets: List[List[Any]] = []
        for row in numbers:
            places = [self._place(label) for label in row[~np.isnan(row)]]
            sets.append(self._labels_of(np.array(places), row[: len(places)]).tolist() if places else [])
        return sets

    def _place(self, label: float) -> int:
        """Where a label is among the classes: labels are places where classes have names."""
        names = self.classes or []
        text = format(label, "g")
        return names.index(text) if text in names else int(label)

    def explain(
        self,
        row: Any,
        *,
        top: int = 10,
        contrast: Optional[Tuple[Any, Any]] = None,
        output: Optional[int] = None,
        influence: bool = False,
    ) -> Explanation:
        """Writes the prediction of one row as a sum over the training rows.

        top       terms to list of each sign, at most 100
        contrast  two classes, why the one rather than the other (default the predicted and the next most probable)
        output    of a regression, the output to explain, or the place of one of several labels (default the most probable)
        influence whether terms have what each row does together with many: the output with it less without it, the other
                  rows at half of their weight; the first time it takes another factor, by method "exact" or "kept"
        """
        x, _ = self._rows(row)
        if len(x) != 1:
            raise Error("one_row", f"{len(x)} rows are given", "explain one at a time", "row")
        options: Dict[str, Any] = {}
        if contrast is not None:
            options["contrast"] = data.names_of(contrast, "contrast")
        if output is not None:
            options["output"] = data.integer(output, "output")
        if influence:
            options["influence"] = True
        answer = self._explain(x[0], options, top=data.integer(top, "top"))
        said = answer["prediction"]
        prediction = self._prediction(lambda *names: _member_of_json(said, names))
        return Explanation(self, x[0], options, prediction, answer)

    def _explain(self, row: np.ndarray, options: Dict[str, Any], **more: Any) -> Dict[str, Any]:
        answer: Dict[str, Any] = json.loads(self._explained(row, "application/json", {**options, **more}))
        return answer

    def _explained(self, row: np.ndarray, accept: str, options: Dict[str, Any]) -> bytes:
        """The answer about a row: pictures go as an array, whose type says their scale, and other rows as JSON."""
        try:
            return self._asked(row, accept, options)
        except Error as e:
            raise e.at(None) from None

    def _asked(self, row: np.ndarray, accept: str, options: Dict[str, Any]) -> bytes:
        if not self.model["images"]:
            body = json.dumps({**options, "values": row.tolist()}).encode()
            return self._server.ask("POST", "/v1/explain", body, Content_Type="application/json", Accept=accept)
        said = {
            k: str(v).lower() if v is True else ",".join(map(str, v)) if isinstance(v, list) else v
            for k, v in options.items()
        }
        path = "/v1/explain?" + urllib.parse.urlencode(said)
        return self._server.ask("POST", path, data.npy(row[None]), Content_Type=_NPY, Accept=accept)

    def _without(self, row: np.ndarray, options: Dict[str, Any], rows: Sequence[int]) -> Without:
        w = self._explain(row, options, top=1, without=data.row_numbers(rows))["without"]
        numbers: Dict[str, Any] = {
            n: None if w.get(n) is None else np.array(w[n], float)
            for n in ("probability", "probability_sd", "mean", "observation_mean")
        }
        name = w.get("class_name", None if w["class"] is None else format(w["class"], "g"))
        return Without(list(w["rows"]), w["order"], name, w.get("class_before"), **numbers)

    def _command(self, verb: str, options: Dict[str, Any], stdin: bytes = b"") -> List[Dict[str, Any]]:
        """What a verb says of the file."""
        self._server
        name = folder().name(self._file)
        return run(verb, "--posterior", name, *flags(options), stdin=stdin, paths={name: "the posterior"})

    def _smallest_flip(self, row: np.ndarray, options: Dict[str, Any]) -> Optional[List[int]]:
        flip = self._explain(row, options, top=1, flip=True)["smallest_flip"]
        return list(flip["rows"]) if flip["found"] else None

    def _page(self, row: np.ndarray, options: Dict[str, Any]) -> str:
        return self._explained(row, "text/html", options).decode()

    def evidence(self) -> Report:
        """The log evidence of the network for its training rows, with its parts, at the precision of the answers."""
        fit = self._command("predict", {"input": "-"}, data.npy(np.zeros((1, self._features))))[-1]["fit"]
        members = (
            "log_evidence",
            "bound",
            "log_likelihood",
            "scatter",
            "log_det",
            "prior_precision",
            "prior_precision_origin",
            "gradient_norm",
            "elbo",
        )
        return Report({name: fit[name] for name in members if name in fit})

    def audit(self, top: int = 20) -> Report:
        """The training rows that are worth a look: mislabelled, the same, near a boundary, of high leverage."""
        return Report(self._command("audit", {"top": data.integer(top, "top")})[0])

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the posterior, with the network and the training rows, to a file for open and the command."""
        self._server
        if not os.path.exists(path_of(path)) or not os.path.samefile(self._file, path):
            write(path, self._file)

    def close(self) -> None:
        """Ends its process. save comes before."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Posterior":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        self._server
        try:
            with io.open(self._file, "rb") as file:
                return _loads, (file.read(), self._labels)
        except OSError as e:
            raise Error("no_file", f"the file of the posterior is gone: {e.strerror}", "fit or open it again") from e

    def __repr__(self) -> str:
        if self._closed:
            return "<funcgp.Posterior, closed>"
        m = self.model
        what = f"a regression of {m.get('target', 'y')}"
        for names in ("classes", "labels"):
            if m.get(names):
                what = f"{names} {', '.join(m[names])}"
        return f"<funcgp.Posterior of {m['train']} training rows, {what}, method {m['method']}>"


def _novelty(member: Callable[..., Any], n: int) -> Any:
    """Novelty as a record array of n rows, by the names of the JSON; NaN where it is not known."""
    names = ("score", "rank", "entropy", "mutual_information")
    found = {name: member("novelty", name) for name in names}
    list_ = [np.full(n, np.nan) if a is None else np.asarray(a, np.float64) for a in found.values()]
    return np.rec.fromarrays(list_, names=",".join(names))  # type: ignore[call-overload]


def _member(table: np.ndarray, names: Sequence[str]) -> Any:
    """A field of a structured array, or a field of that; None where there is none."""
    a: Any = table
    for name in names:
        if a.dtype.names is None or name not in a.dtype.names:
            return None
        a = a[name]
    return a


def _member_of_json(said: Any, names: Sequence[str]) -> Optional[np.ndarray]:
    """The same of the JSON of one prediction."""
    for name in names:
        said = None if said is None else said.get(name)
    return None if said is None else np.array([said], np.float64)


def _end(process: Process, file: Optional[str], pid: int) -> None:
    process.close()
    if file and os.getpid() == pid:
        remove(file)
