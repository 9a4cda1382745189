"""A posterior: open one, ask it, save it."""

from __future__ import annotations

import io
import json
import os
import shutil
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import data
from .command import flags, run
from .errors import Error, without_flags
from .folder import folder
from .process import Process
from .results import Explanation, Prediction, Report, Without


def open(path: Union[str, "os.PathLike[str]"]) -> "Posterior":  # noqa: A001, as gzip.open
    """Opens the file of a posterior, which save or "gpexplain fit --bundle" wrote."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise Error(
            f"there is no file {path}",
            code="no_file",
            remedy="give the path of a posterior that save wrote",
            argument="path",
        )
    posterior = Posterior(os.path.abspath(path))
    posterior.model  # starts the server, so that a wrong file is an error here
    return posterior


def _loads(file: bytes, labels: Optional[np.ndarray]) -> "Posterior":
    path = folder().new(".gp")
    with io.open(path, "wb") as f:
        f.write(file)
    return Posterior(path, labels)


def remove(path: str) -> None:
    """Removes a file if it is there."""
    if os.path.exists(path):
        os.unlink(path)


class Posterior:
    """What is known of the function that a network is, given its training rows. fit and open make one.

    A process of the command answers for it, which ends with close, with the last reference, or with this process.
    """

    def __init__(self, file: str, labels: Optional[np.ndarray] = None) -> None:
        self._file, self._labels = file, labels
        self._process = Process(file)
        self._model: Optional[Dict[str, Any]] = None
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
    def warnings(self) -> List[str]:
        """What does not go together in the fit."""
        return [without_flags(f"{w['text']} {w['remedy']}".strip()) for w in self.model["warnings"]]

    @property
    def _server(self) -> Process:
        if self._closed:
            raise Error("the posterior is closed", code="closed", remedy="open it again")
        return self._process

    @property
    def _features(self) -> int:
        return int(np.prod(self.model["shape"]))

    def predict(self, X: Any) -> Prediction:
        """Predicts rows: calibrated probabilities or means, how sure they are, and how unlike the training rows."""
        x = data.rows(X, self._features)
        x = np.ascontiguousarray(x.reshape(len(x), self._features), np.float64)
        if not len(x):
            raise Error("X has no rows", code="bad_rows", remedy="give one at least", argument="X")
        outputs = len(self.classes or [""])
        most = min(1000, (1 << 20) // (self._features + outputs**2), ((8 << 20) - 4096) // (8 * self._features))
        answers: List[Dict[str, Any]] = []
        for i in range(0, len(x), max(1, most)):
            body = io.BytesIO()
            np.save(body, x[i : i + max(1, most)])
            _, answer = self._server.ask("POST", "/v1/predict", body.getvalue(), Content_Type="application/x-npy")
            answers += json.loads(answer)["predictions"]
        return self._prediction(answers)

    def _prediction(self, answers: List[Dict[str, Any]]) -> Prediction:
        """The predictions of answers of the server."""

        def column(*names: str) -> Optional[np.ndarray]:
            made = []
            for a in answers:
                value: Any = a
                for name in names:
                    value = value.get(name) if value is not None else None
                made.append(value)
            return None if made[0] is None and all(v is None for v in made) else np.array(made, np.float64)

        def squeezed(a: Optional[np.ndarray]) -> Optional[np.ndarray]:
            return a[:, 0] if a is not None and a.shape[1] == 1 else a

        probability = column("probability")
        nothing = np.full(len(answers), np.nan)
        novelty = [column("novelty", name) for name in ("score", "rank")]
        score, rank = (nothing if a is None else a for a in novelty)
        if probability is not None:
            label = self._label_of([a["class"] for a in answers], [a.get("class_name") for a in answers])
            mean, sd, network = column("mean"), column("probability_sd"), column("map_probability")
            assert mean is not None and sd is not None and network is not None
            return Prediction(label, probability, mean, sd, None, None, score, rank, network, self.classes)
        mean, sd, network = (
            squeezed(column("observation_mean")),
            squeezed(column("observation_sd")),
            squeezed(column("mean")),
        )
        assert mean is not None and sd is not None and network is not None
        interval = np.stack([mean - 1.959963984540054 * sd, mean + 1.959963984540054 * sd], -1)
        return Prediction(None, None, mean, sd, squeezed(column("function_sd")), interval, score, rank, network, None)

    def _label_of(self, numbers: Sequence[Any], names: Sequence[Any]) -> np.ndarray:
        """Classes as they are in y: words, or else numbers."""
        if self._labels is not None:
            if self.classes is not None:
                return self._labels[[self.classes.index(name) for name in names]]
        if names[0] is not None:
            return np.array(names)
        a = np.array(numbers, np.float64)
        return a.astype(np.int64) if np.all(a == np.round(a)) else a

    def explain(
        self, row: Any, *, top: int = 10, contrast: Optional[Tuple[Any, Any]] = None, output: Optional[int] = None
    ) -> Explanation:
        """Writes the prediction of one row as a sum over the training rows.

        top       terms to list of each sign, at most 100
        contrast  two classes, why the one rather than the other (default the predicted and the next most probable)
        output    of a regression, the output to explain
        """
        x = data.rows(row, self._features).reshape(-1, self._features)
        if len(x) != 1:
            raise Error(f"{len(x)} rows are given", code="one_row", remedy="explain one at a time", argument="row")
        options: Dict[str, Any] = {}
        if contrast is not None:
            options["contrast"] = [str(name) for name in contrast]
        if output is not None:
            options["output"] = int(output)
        answer = self._explain(x[0], options, top=int(top))
        return Explanation(self, x[0], options, self._prediction([answer["prediction"]]), answer)

    def _explain(self, row: np.ndarray, options: Dict[str, Any], **more: Any) -> Dict[str, Any]:
        values = row.astype(np.float64)
        return self._server.json("/v1/explain", values=values.tolist(), **options, **more)

    def _without(self, row: np.ndarray, options: Dict[str, Any], rows: Sequence[int]) -> Without:
        w = self._explain(row, options, top=1, without=[int(i) for i in rows])["without"]
        probability, sd, mean = (
            None if w.get(n) is None else np.array(w[n], float)
            for n in ("probability", "probability_sd", "observation_mean")
        )
        if mean is None:
            mean = np.array(w["mean"], float)
        label = w.get("class_name", None if w["class"] is None else format(w["class"], "g"))
        return Without(list(w["rows"]), w["order"], label, w.get("class_before"), probability, sd, mean)

    def _command(
        self, verb: str, row: Optional[np.ndarray], options: Dict[str, Any], *args: str
    ) -> List[Dict[str, Any]]:
        """What a verb says of the file, and of a row."""
        self._server
        paths = {self._file: "the posterior"}
        if row is None:
            return run(verb, "--posterior", self._file, *flags(options), *args, paths=paths)
        rows = folder().new(".npy")
        try:
            np.save(rows, row.reshape(1, *self.model["shape"]))
            paths[rows] = "X"
            return run(verb, "--posterior", self._file, "--input", rows, *flags(options), *args, paths=paths)
        finally:
            remove(rows)

    def _smallest_flip(self, row: np.ndarray, options: Dict[str, Any], most: Optional[int]) -> Optional[List[int]]:
        flip = self._command("explain", row, dict(options, smallest_flip=True, flip_most=most))[0]["smallest_flip"]
        return list(flip["rows"]) if flip["found"] else None

    def _page(self, row: np.ndarray, options: Dict[str, Any]) -> str:
        page = folder().new(".html")
        try:
            self._command("explain", row, options, "--html", page)
            with io.open(page, encoding="utf-8") as file:
                return file.read()
        finally:
            remove(page)

    def evidence(self) -> Report:
        """The log evidence of the network for its training rows, with its parts, at the precision of the answers."""
        fit = self._command("predict", np.zeros(self._features), {})[-1]["fit"]
        members = (
            "log_evidence",
            "bound",
            "log_likelihood",
            "scatter",
            "log_det",
            "prior_precision",
            "prior_precision_origin",
            "gradient_norm",
        )
        return Report({name: fit[name] for name in members if name in fit})

    def audit(self, top: int = 20) -> Report:
        """The training rows that are worth a look: mislabelled, the same, near a boundary, of high leverage."""
        return Report(self._command("audit", None, {"top": int(top)})[0])

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the posterior, with the network and the training rows, to a file for open and the command."""
        self._server
        part = f"{os.fspath(path)}.{os.getpid()}"
        try:
            shutil.copyfile(self._file, part)
            os.replace(part, path)
        finally:
            remove(part)

    def close(self) -> None:
        """Ends its process. save comes before."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Posterior":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        with io.open(self._file, "rb") as file:
            return _loads, (file.read(), self._labels)

    def __repr__(self) -> str:
        if self._closed:
            return "<funcgp.Posterior, closed>"
        m = self.model
        what = f"classes {', '.join(m['classes'])}" if m.get("classes") else f"a regression of {m.get('target', 'y')}"
        return f"<funcgp.Posterior of {m['train']} training rows, {what}, method {m['method']}>"


def _end(process: Process, file: Optional[str], pid: int) -> None:
    process.close()
    if file and os.getpid() == pid:
        remove(file)
