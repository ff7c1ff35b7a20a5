"""Calibration: what turns the signals of an answer into two chances, for one model and prompt.

Two logistic regressions over the same signals: whether the passages state the answer (`support`), and whether they
answer the question at all (`answerable`, by which answers are refused). `rag bench answers --calibrate` fits them to
judged answers and writes the file. A signal that an answer lacks counts as its mean.

A calibration is fitted in one number format. It holds for another one of the same weights only if its file names it,
with the measurement that shows it (`benchmarks/support_formats.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

SIGNALS = ("evidence", "covered", "check", "readout", "margin")
"""`evidence`, `covered`: of the words of the answer's weakest sentence (`evidence.py`); `readout`: log-odds of the
model's state before it answers (`readout.py`); `check`: log-odds of its Yes, of models without a readout; `margin`: of
the search (`retriever/search/standout.py`)."""
BEFORE = ("readout", "margin")
"""Those that are known before the answer. If the model has a readout, they are all that `answerable` needs."""
MOST_ODDS = 12.0
"""Bound of log-odds in both directions."""
RIDGE = 1.0
"""Penalty on the squares of the weights of standardised signals."""
ENGINE = "decoder"
"""The engine whose answers the shipped files are of."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """A chance from signals: bias + sum of weight * (signal - mean) / scale, by name, through the logistic function."""

    bias: float
    weights: Mapping[str, float]
    means: Mapping[str, float]
    scales: Mapping[str, float]

    def chance(self, signals: Mapping[str, float]) -> float:
        odds = self.bias
        for name, weight in self.weights.items():
            odds += weight * (signals.get(name, self.means[name]) - self.means[name]) / self.scales[name]
        return 1 / (1 + math.exp(-max(-MOST_ODDS, min(MOST_ODDS, odds))))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Attributes:
    model, dtype, engine, prompt, languages: what it was fitted to, and holds for; `prompt` is `Templates.digest`.
    support, answerable: the two regressions.
    threshold: answers with less chance that the passages answer the question are refused or warned of.
    answers: number of judged answers that it was fitted to.
    """

    model: str
    dtype: str
    engine: str
    prompt: str
    support: Logistic
    answerable: Logistic
    threshold: float
    answers: int
    languages: Sequence[str]
    other_dtypes: Mapping[str, str] = field(default_factory=dict)
    """Other number formats of the same weights that it holds for: name -> path of the result file that shows it."""

    def holds_for(self, model: str, dtype: str, prompt: str, language: str) -> bool:
        own = (self.model, self.engine, self.prompt)
        in_format = dtype == self.dtype or dtype in self.other_dtypes
        return own == (model, ENGINE, prompt) and in_format and language in self.languages

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read(text: str) -> Calibration:
    """A calibration from its file's text.

    Raises:
        ValueError: it is none.
    """
    try:
        fields = json.loads(text)
        regressions = {name: Logistic(**fields[name]) for name in ("support", "answerable")}
        return Calibration(**{**fields, **regressions})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"this is not a calibration that rag bench answers --calibrate wrote: {error}") from None


@cache
def shipped() -> Sequence[Calibration]:
    """The package's calibrations. One is of no model: its signals are those of models without a readout."""
    folder = resources.files("workers.support") / "calibrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return [read(file.read_text(encoding="utf-8")) for file in files]


def find(
    model: str, dtype: str, prompt: str, language: str, own: Calibration | None = None
) -> tuple[Calibration, bool]:
    """The calibration to use, and whether it holds for this model, number format, prompt and language.

    Where none holds, the operator's, else one of the same model, if possible for the language, else that of no model.

    Args:
        own: the operator's, used before the package's.
    """
    candidates = [*([own] if own else ()), *shipped()]
    for candidate in candidates:
        if candidate.holds_for(model, dtype, prompt, language):
            return candidate, True
    of_model = [one for one in candidates if one.model == model]
    nearest = own or max(of_model, key=lambda one: language in one.languages, default=None)
    return nearest or next(one for one in candidates if not one.model), False


def fit(signals: Sequence[Mapping[str, float]], labels: Sequence[bool], names: Sequence[str] = SIGNALS) -> Logistic:
    """The regression with the highest likelihood under a ridge penalty, by Newton's method.

    Raises:
        ValueError: there are no answers of one kind.
    """
    if len(set(labels)) < 2:
        raise ValueError("a calibration needs answers of both kinds, right and wrong, answerable and not")
    present = [name for name in names if any(name in one for one in signals)]
    raw = np.array([[one.get(name, np.nan) for name in present] for one in signals], dtype=np.float64)
    means, scales = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
    scales[scales == 0] = 1.0
    features = np.hstack([np.ones((len(raw), 1)), np.nan_to_num((raw - means) / scales)])
    target = np.array(labels, dtype=np.float64)
    penalty = np.diag([0.0, *[RIDGE] * len(present)])
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(features @ weights, -MOST_ODDS, MOST_ODDS)))
        gradient = features.T @ (target - chance) - penalty @ weights
        curvature = (features * (chance * (1 - chance))[:, None]).T @ features + penalty
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-10:
            break
    named = {name: n for n, name in enumerate(present)}
    return Logistic(
        float(weights[0]),
        {name: float(weights[n + 1]) for name, n in named.items()},
        {name: float(means[n]) for name, n in named.items()},
        {name: float(scales[n]) for name, n in named.items()},
    )
