"""Plot of `rag bench answers`: is `support` a chance, and what does refusing cost? As SVG; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from decoder.bench.decode.plots import require_matplotlib
from rag_service.bench.answers.outcomes import Judged
from rag_service.bench.answers.support import bins

__all__ = ["draw", "require_matplotlib"]


def draw(path: Path, judged: Sequence[Judged]) -> None:
    """Left: share of right answers by mean support. Right: refused questions of each kind by false refusals."""
    from matplotlib.figure import Figure

    scored = [entry for entry in judged if entry[1].answerable is not None]
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = bins(scored)
    left.plot([0, 1], [0, 1], color="0.8", linewidth=1)
    left.plot([row["support"] for row in rows], [row["right"] for row in rows], marker="o")
    for row in rows:
        left.annotate(str(row["answers"]), (row["support"], row["right"]), (4, -12), textcoords="offset points")
    left.set(xlabel="mean support", ylabel="share of right answers", xlim=(0, 1), ylim=(0, 1), title="Calibration")
    chances = sorted({outcome.answerable or 0.0 for _, outcome, _ in scored} | {1.01})
    wanted = [outcome.answerable or 0.0 for question, outcome, _ in scored if question.answerable]
    for kind in sorted({question.kind for question, _, _ in scored if not question.answerable}):
        refused = [outcome.answerable or 0.0 for question, outcome, _ in scored if question.kind == kind]
        right.plot(
            [sum(one < chance for one in wanted) / max(1, len(wanted)) for chance in chances],
            [sum(one < chance for one in refused) / len(refused) for chance in chances],
            label=kind,
        )
    right.set(xlabel="answerable questions refused", ylabel="refused", xlim=(0, 1), ylim=(0, 1), title="Refusing")
    right.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})
