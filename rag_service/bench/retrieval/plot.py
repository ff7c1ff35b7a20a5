"""Plots of `rag bench retrieval`: nDCG@10 by set and mode, and times by size. As SVG; needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decoder.bench.decode.plots import require_matplotlib

__all__ = ["draw", "require_matplotlib"]


def draw(path: Path, result: Mapping[str, Any]) -> None:
    """One panel for what was measured: quality, times or both."""
    from matplotlib.figure import Figure

    panels = [name for name in ("rows", "scale") if result.get(name)]
    figure = Figure(figsize=(9, 4 * len(panels)), layout="constrained")
    for axes, name in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        if name == "rows":
            _quality(axes, result)
        else:
            _times(axes, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def _quality(axes: Any, result: Mapping[str, Any]) -> None:
    names = list(dict.fromkeys(row["set"] for row in result["rows"]))
    modes = list(dict.fromkeys(row["mode"] for row in result["rows"]))
    for place, mode in enumerate(modes):
        found = {row["set"]: row["ndcg@10"] for row in result["rows"] if row["mode"] == mode}
        shown = [name for name in names if name in found]
        means = [found[name]["mean"] for name in shown]
        errors = [
            [found[name]["mean"] - found[name]["low"] for name in shown],
            [found[name]["high"] - found[name]["mean"] for name in shown],
        ]
        middle = [names.index(name) + (place - (len(modes) - 1) / 2) * 0.25 for name in shown]
        axes.bar(middle, means, width=0.22, yerr=errors, capsize=2, label=mode)
    axes.set(ylabel="nDCG@10", xticks=range(len(names)), xticklabels=names, ylim=(0, 1))
    axes.legend(loc="lower right")


def _times(axes: Any, result: Mapping[str, Any]) -> None:
    sizes = sorted(result["scale"], key=lambda size: int(size["facts"]["chunks"]))
    for what in dict.fromkeys(row["what"] for size in sizes for row in size["rows"]):
        points = [
            (size["facts"]["chunks"], row["p50"]) for size in sizes for row in size["rows"] if row["what"] == what
        ]
        axes.plot([one for one, _ in points], [time for _, time in points], marker="o", label=what)
    axes.set(xlabel="chunks", ylabel="median, ms", xscale="log", ylim=(0, None))
    axes.legend(fontsize="small", loc="upper left")
