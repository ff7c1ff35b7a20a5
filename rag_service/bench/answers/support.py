"""How much `support` and `abstain` are worth: AUROC, calibration, precision and recall of abstaining. Runs nothing.

Also fits a calibration to judged answers (`rag bench answers --calibrate`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoder.bench.results import table
from rag_service.bench.answers.outcomes import Judged
from rag_service.bench.answers.statistics import auroc, auroc_interval, wilson
from workers.support.calibration import BEFORE, ENGINE, SIGNALS, Calibration, fit

BINS = 5
"""Bins of the calibration table."""
FALSE_REFUSALS = 0.1
"""Share of the answerable questions that a fitted threshold refuses."""

Chosen = Callable[[Judged], bool]


def summary(judged: Sequence[Judged]) -> dict[str, Any]:
    """AUROC of both chances, calibration of `support`, and what `abstain` does; {} without support."""
    scored = [entry for entry in judged if entry[1].answerable is not None]
    if not scored:
        return {}
    return {
        "separation": _separation(scored),
        "calibration": bins(scored),
        "abstaining": _abstaining(scored),
        "ms": _rounded(statistics.median(outcome.support_ms for _, outcome, _ in scored)),
    }


def calibration(judged: Sequence[Judged], model: str, dtype: str, prompt: str) -> Calibration:
    """A calibration fitted to these answers; those that abstain by their words count only for `answerable`.

    Args:
        prompt: digest of the prompt templates.

    Raises:
        ValueError: there are no right or no wrong answers, or only questions of one kind.
    """
    scored = [entry for entry in judged if entry[1].signals]
    answered = [entry for entry in scored if not entry[2].abstains]
    support = fit([outcome.signals for _, outcome, _ in answered], [verdict.right for _, _, verdict in answered])
    names = BEFORE if any("readout" in outcome.signals for _, outcome, _ in scored) else SIGNALS
    asked = [question.answerable for question, _, _ in scored]
    answerable = fit([outcome.signals for _, outcome, _ in scored], asked, names)
    chances = sorted(answerable.chance(outcome.signals) for question, outcome, _ in scored if question.answerable)
    threshold = chances[int(FALSE_REFUSALS * len(chances))]
    languages = sorted({question.language for question, _, _ in scored})
    return Calibration(model, dtype, ENGINE, prompt, support, answerable, threshold, len(scored), languages)


def markdown(result: Mapping[str, Any]) -> list[str]:
    """The summary as tables."""
    if not result:
        return []
    body = [
        [row["of"], "/".join(map(str, row["n"])), f"{row['auroc']:.3f} ({row['low']:.3f} to {row['high']:.3f})"]
        for row in result["separation"]
    ]
    lines = [*table(["AUROC", "n", ""], body, left=1), ""]
    body = [
        [f"{row['from']:.1f} to {row['to']:.1f}", str(row["answers"]), f"{row['support']:.2f}", f"{row['right']:.2f}"]
        for row in result["calibration"]
    ]
    lines += [*table(["`support`", "answers", "mean", "right"], body, left=1), ""]
    body = [
        [row["of"], f"{row['count']} of {row['n']}", f"{row['share']:.2f} ({row['low']:.2f} to {row['high']:.2f})"]
        for row in result["abstaining"]
    ]
    return [*lines, *table(["abstaining", "n", ""], body, left=1), ""]


def _separation(scored: Sequence[Judged]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    answered = [entry for entry in scored if entry[1].support is not None and not entry[2].abstains]

    def add(name: str, entries: Sequence[Judged], score: str, positive: Chosen, negative: Chosen) -> None:
        ones, others = ([getattr(e[1], score) for e in entries if chosen(e)] for chosen in (positive, negative))
        area, interval = auroc(ones, others), auroc_interval(ones, others)
        if area is not None and interval is not None:
            low, high = map(_rounded, interval)
            rows.append({"of": name, "auroc": _rounded(area), "low": low, "high": high, "n": [len(ones), len(others)]})

    add("`support`, right against wrong answers to answerable questions", answered, "support", _right, _wrong)
    add("`support`, right against all other answers", answered, "support", _right, lambda e: not _right(e))
    for kind in sorted({question.kind for question, _, _ in scored}):
        of_kind = [entry for entry in answered if entry[0].kind == kind]
        add(f"`support`, right against wrong, {kind}", of_kind, "support", _right, _wrong)
    for kind in sorted({question.kind for question, _, _ in scored if not question.answerable}):
        add(
            f"`answerable`, answerable against {kind}",
            scored,
            "answerable",
            _answerable,
            lambda e, kind=kind: e[0].kind == kind,  # type: ignore[misc]
        )
    return rows


def bins(scored: Sequence[Judged]) -> list[dict[str, Any]]:
    """Mean support and share of right answers, of answers that do not abstain, by bins of support."""
    answered = [(o.support, v.right) for _, o, v in scored if o.support is not None and not v.abstains]
    rows = []
    for number in range(BINS):
        inside = [pair for pair in answered if min(BINS - 1, int(pair[0] * BINS)) == number]
        if inside:
            means = [_rounded(statistics.fmean(values)) for values in zip(*inside, strict=True)]
            bounds = {"from": number / BINS, "to": (number + 1) / BINS}
            rows.append({**bounds, "answers": len(inside), "support": means[0], "right": means[1]})
    return rows


def _abstaining(scored: Sequence[Judged]) -> list[dict[str, Any]]:
    rows = []

    def add(name: str, values: Sequence[bool]) -> None:
        if values:
            low, high = map(_rounded, wilson(sum(values), len(values)))
            share = _rounded(sum(values) / len(values))
            rows.append({"of": name, "count": sum(values), "n": len(values), "share": share, "low": low, "high": high})

    for how, declined in (
        ("warned or refused", lambda e: e[1].abstained is not None),
        ("warned, refused or by its words", lambda e: e[1].abstained is not None or e[2].abstains),
    ):
        for kind in sorted({question.kind for question, _, _ in scored}):
            add(f"{how}: {kind}", [declined(e) for e in scored if e[0].kind == kind])
        add(f"{how}: all answerable", [declined(e) for e in scored if _answerable(e)])
        add(f"{how}: precision", [not _answerable(e) for e in scored if declined(e)])
        add(f"{how}: recall", [declined(e) for e in scored if not _answerable(e)])
    return rows


def _right(entry: Judged) -> bool:
    return entry[0].answerable and entry[2].right


def _wrong(entry: Judged) -> bool:
    return entry[0].answerable and not entry[2].right


def _answerable(entry: Judged) -> bool:
    return entry[0].answerable


def _rounded(value: float) -> float:
    return round(value, 4)
