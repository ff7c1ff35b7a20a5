"""Plots of `bench decode`'s rows, as SVG. Needs matplotlib, which nothing else does."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from decoder.bench.prompts import BenchError
from decoder.bench.rows import PLAIN, Row

_PLOTTED = {"mat": "tokens a target pass (MAT)", "speedup_vs_plain": "decode speed-up over plain"}


def require_matplotlib() -> None:
    """Raises BenchError where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("--plots needs matplotlib; install it with `pip install matplotlib`, or leave --plots out")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw one bar chart per figure, grouped by category, one bar a drafter; returns the files written."""
    require_matplotlib()
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    groups = list(dict.fromkeys((row["benchmark"], row["category"], row["turn"]) for row in rows))
    drafters = list(dict.fromkeys(row["drafter"] for row in rows if row["drafter"] != PLAIN)) or [PLAIN]
    values = {(row["benchmark"], row["category"], row["turn"], row["drafter"]): row for row in rows}
    written = []
    for name, label in _PLOTTED.items():
        figure = Figure(figsize=(8, 1.5 + 0.25 * len(groups) * len(drafters)), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / len(drafters)
        for number, drafter in enumerate(drafters):
            lengths = [values[(*group, drafter)][name] or 0.0 for group in groups]
            places = [place + number * height for place in range(len(groups))]
            axes.barh(places, lengths, height, label=str(drafter))
        axes.axvline(1.0, color="grey", linewidth=0.8)
        middle = height * (len(drafters) - 1) / 2
        axes.set_yticks([place + middle for place in range(len(groups))], [_label(group) for group in groups])
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.legend(fontsize="small")
        path = folder / f"{name}.svg"
        figure.savefig(path)
        written.append(path)
    return written


def _label(group: tuple[object, object, object]) -> str:
    benchmark, category, turn = group
    return f"{benchmark} {category}" + (f", turn {turn}" if turn != 1 else "")
