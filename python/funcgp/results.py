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
    """Predictions of N rows, as arrays of NumPy. What a model does not say is None."""

    mean: np.ndarray  # of a regression N or N×T in the units of y; of classes N×C outputs
    sd: np.ndarray  # of probability, N×C; of a regression of new observations, as mean
    network: np.ndarray  # what the network alone says: N×C probabilities, or outputs
    novelty: np.ndarray  # N, surprise of the inputs in nats, about 1 for rows like the training rows
    novelty_rank: np.ndarray  # N, the share of training rows that are less surprising
    classes: Optional[List[str]]  # names in the order of probability
    label: Optional[np.ndarray] = None  # N, the most probable class
    probability: Optional[np.ndarray] = None  # N×C, calibrated
    set: Optional[List[List[Any]]] = None  # of N rows, the classes that the coverage asked for takes
    function_sd: Optional[np.ndarray] = None  # of a regression: without the noise
    interval: Optional[np.ndarray] = None  # of a regression N×2 or N×T×2: .95, or the coverage asked for
    index: Any = None  # N, of pandas, where the rows had one of their own

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if self.classes else "a regression"
        return f"<funcgp.Prediction of {len(self)} rows, {what}>"

    def frame(self) -> Any:
        """A DataFrame of pandas with a line for each row."""
        columns: Dict[str, np.ndarray] = {}
        if self.label is not None:
            columns["label"] = self.label
        names: Sequence[str] = self.classes or [str(t) for t in range(self.mean.shape[-1])]
        for name in (
            ("probability", "sd") if self.probability is not None else ("mean", "sd", "function_sd", "interval")
        ):
            a = getattr(self, name)
            if a is None:
                continue
            if name == "interval":
                columns.update(_columns("low", a[..., 0], names))
                columns.update(_columns("high", a[..., 1], names))
            else:
                columns.update(_columns(name, a, names))
        columns.update(novelty=self.novelty, novelty_rank=self.novelty_rank)
        return _pandas().DataFrame(columns, index=self.index)

    def _repr_html_(self) -> str:
        return str(self.frame()._repr_html_())


def _columns(name: str, a: np.ndarray, names: Sequence[str]) -> Dict[str, np.ndarray]:
    return {name: a} if a.ndim == 1 else {f"{name}_{names[k]}": a[:, k] for k in range(a.shape[1])}


@dataclass(frozen=True)
class Without:
    """The prediction of one row without some training rows."""

    rows: List[int]
    order: str  # "refit", of the linearized model without them, or "first", the sum of first orders
    label: Optional[str]
    label_before: Optional[str]
    probability: Optional[np.ndarray]  # C
    sd: Optional[np.ndarray]  # of probability
    mean: np.ndarray  # outputs; of a regression in the units of y


class Explanation:
    """Why one row is predicted as it is: network = prior_mean + the sum of all terms + remainder.

    prediction  the Prediction of the row
    terms       a record array of the largest terms: row, label, value, sd, distinguishable, removal, similarity
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

        self.terms = np.rec.fromarrays(  # type: ignore[call-overload]
            [column(int, "index"), column(str, "id", ""), column(float, "label"), column(str, "label_name", "")]
            + [column(float, "value"), column(float, "sd"), column(bool, "distinguishable", False)]
            + [column(float, "removal"), column(float, "similarity")],
            names="row,id,label,label_name,value,sd,distinguishable,removal,similarity",
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
        lines += [f"{'row':>8}  {'label':<12} {'value':>10} {'± sd':>10} {'removal':>10}"]
        for t in self.terms:
            label = t["label_name"] or format(t["label"], "g")
            lines.append(f"{t['row']:>8}  {label:<12} {t['value']:>10.4g} {t['sd']:>10.4g} {t['removal']:>10.4g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        page = _html.escape(self.html(), quote=True)
        return f'<iframe style="width:100%;height:40em;border:0" srcdoc="{page}"></iframe>'
