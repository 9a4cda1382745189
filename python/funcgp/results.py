"""What a posterior answers."""

from __future__ import annotations

import html as _html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from .command import write

if TYPE_CHECKING:
    from .posterior import Posterior


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as e:
        raise ImportError("frame() needs pandas, which is not installed") from e
    return pandas


class Report(Dict[str, Any]):
    """The JSON object of a verb; doc/json.md says what its members mean."""

    def frame(self, member: str) -> Any:
        """A list of objects among the members as a DataFrame of pandas."""
        return _pandas().json_normalize(self[member])


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predictions of N rows, as arrays of NumPy, by the names of the JSON. What a model does not say is None.

    With f normal of the mean temperature · (mean + shift) and the covariance scale · covariance, probability is that of
    the classes by f, and function_sd the standard deviation of f, in the units of the targets.
    """

    mean: np.ndarray  # N×C, the outputs of the network
    covariance: np.ndarray  # N×C×C, of the outputs, before calibration
    scale: float  # by calibration; 1 without it
    temperature: float  # the same, of classes
    shift: np.ndarray  # C, the same; 0 but where the classes' shares by the network are not those of the data
    novelty: np.recarray  # N: score, surprise of the inputs in nats, about 1 for rows like the training rows; rank, …
    classes: Optional[List[str]]  # names in the order of probability
    class_: Optional[np.ndarray] = None  # N, the most probable class: class of the JSON, which is a word of Python
    probability: Optional[np.ndarray] = None  # N×C, calibrated
    probability_sd: Optional[np.ndarray] = None  # N×C, of probability
    map_probability: Optional[np.ndarray] = None  # N×C, of the network alone
    set: Optional[List[List[Any]]] = None  # of N rows, the classes that the coverage asked for takes
    observation_mean: Optional[np.ndarray] = None  # of a regression N or N×T, in the units of y
    observation_sd: Optional[np.ndarray] = None  # the same, of new observations
    function_sd: Optional[np.ndarray] = None  # the same, without the noise
    interval: Optional[np.ndarray] = None  # of a regression N×2 or N×T×2: .95, or the coverage asked for
    labels: Optional[List[str]] = None  # of which a row has any number, in the order of probability
    index: Any = None  # N, of pandas, where the rows had one of their own

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if self.classes else "a regression"
        if self.labels:
            what = f"{len(self.labels)} labels"
        return f"<funcgp.Prediction of {len(self)} rows, {what}>"

    def frame(self) -> Any:
        """A DataFrame of pandas with a line for each row."""
        columns: Dict[str, np.ndarray] = {}
        if self.class_ is not None:
            columns["class"] = self.class_
        names: Sequence[str] = self.classes or self.labels or [str(t) for t in range(self.mean.shape[-1])]
        for name in ("probability", "probability_sd", "observation_mean", "observation_sd", "function_sd"):
            a = getattr(self, name)
            if a is not None:
                columns.update(_columns(name, a, names))
        if self.interval is not None:
            for k, end in enumerate(("low", "high")):
                columns.update(_columns(f"interval_{end}", self.interval[..., k], names))
        columns.update(novelty_score=self.novelty.score, novelty_rank=self.novelty["rank"])
        return _pandas().DataFrame(columns, index=self.index)

    def _repr_html_(self) -> str:
        return str(self.frame()._repr_html_())


def _columns(name: str, a: np.ndarray, names: Sequence[str]) -> Dict[str, np.ndarray]:
    return {name: a} if a.ndim == 1 else {f"{name}_{names[k]}": a[:, k] for k in range(a.shape[1])}


@dataclass(frozen=True)
class Without:
    """The prediction of one row without some training rows, by the names of the JSON."""

    rows: List[int]
    order: str  # "refit", of the linearized model without them, or "first", the sum of first orders
    class_: Optional[str]  # class of the JSON, by its name
    class_before: Optional[str]
    probability: Optional[np.ndarray]  # C
    probability_sd: Optional[np.ndarray]  # C
    mean: np.ndarray  # C outputs
    observation_mean: Optional[np.ndarray]  # of a regression, in the units of y


class Explanation:
    """Why one row is predicted as it is: network = prior_mean + the sum of all terms + remainder.

    prediction  the Prediction of the row
    terms       a record array of the largest terms: index, the number of the training row, id, label, label_name,
                value, sd, distinguishable, removal, influence where it was asked for, similarity
    title, says what a value means, its unit and its sign
    sum         network, prior_mean, contribution_sum, remainder and examples
    """

    def __init__(
        self,
        posterior: "Posterior",
        row: np.ndarray,
        options: Dict[str, Any],
        prediction: Prediction,
        answer: Dict[str, Any],
    ) -> None:
        self._posterior, self._row, self._options = posterior, row, options
        self.prediction = prediction
        self.title: str = answer["score"]["title"]
        self.says: str = answer["score"]["says"]
        self.sum: Dict[str, Any] = answer["sum"]
        terms = sorted(answer["for"] + answer["against"], key=lambda t: -abs(float(t["value"] or 0)))

        def column(kind: type, name: str, missing: Any = float("nan")) -> np.ndarray:
            return np.array([missing if t.get(name) is None else t[name] for t in terms], kind)

        together = ["influence"] if options.get("influence") else []
        self.terms = np.rec.fromarrays(  # type: ignore[call-overload]
            [column(int, "index"), column(str, "id", ""), column(float, "label"), column(str, "label_name", "")]
            + [column(float, "value"), column(float, "sd"), column(bool, "distinguishable", False)]
            + [column(float, name) for name in ["removal", *together, "similarity"]],
            names=[
                "index",
                "id",
                "label",
                "label_name",
                "value",
                "sd",
                "distinguishable",
                "removal",
                *together,
                "similarity",
            ],
        )

    def frame(self) -> Any:
        """The terms as a DataFrame of pandas."""
        return _pandas().DataFrame(self.terms)

    def without(self, rows: Sequence[int]) -> Without:
        """What would be predicted without some training rows."""
        return self._posterior._without(self._row, self._options, rows)

    def smallest_flip(self) -> Optional[List[int]]:
        """A small set of training rows without which the class is another, None where none was found."""
        return self._posterior._smallest_flip(self._row, self._options)

    def html(self) -> str:
        """A page that needs nothing else."""
        return self._posterior._page(self._row, self._options)

    def save(self, path: str) -> None:
        """Writes the page to a file."""
        write(path, self.html().encode())

    def __repr__(self) -> str:
        s = self.sum
        lines = [self.title, f"network {s['network']:.4g} = prior mean {s['prior_mean']:.4g}"]
        lines[1] += f" + {s['examples']} terms {s['contribution_sum']:.4g} + remainder {s['remainder']:.4g}"
        lines += [f"{'index':>8}  {'label':<12} {'value':>10} {'± sd':>10} {'removal':>10}"]
        for t in self.terms:
            label = t["label_name"] or format(t["label"], "g")
            lines.append(f"{t['index']:>8}  {label:<12} {t['value']:>10.4g} {t['sd']:>10.4g} {t['removal']:>10.4g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        page = _html.escape(self.html(), quote=True)
        return f'<iframe style="width:100%;height:40em;border:0" srcdoc="{page}"></iframe>'
