"""CopySpec's curve as SVG: MAT and tokens a second by turn, for plain and the drafter. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_service.bench.rows import SessionRow

PANELS = (("mat", "tokens a target pass (MAT)"), ("tokens_per_s", "tokens a second, after the first"))


def draw(rows: Sequence[SessionRow], modes: Sequence[str], folder: Path) -> Path:
    """One row of panels a benchmark, one line a mode. Returns the file, `sessions.svg`."""
    from matplotlib.figure import Figure

    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    figure = Figure(figsize=(8, 0.6 + 2.4 * len(benchmarks)), layout="constrained")
    panels = figure.subplots(len(benchmarks), len(PANELS), squeeze=False)
    for benchmark, panels_of_benchmark in zip(benchmarks, panels, strict=True):
        for axes, (name, label) in zip(panels_of_benchmark, PANELS, strict=True):
            for mode in modes:
                curve = [row for row in rows if (row["benchmark"], row["mode"]) == (benchmark, mode)]
                values: list[Any] = [row[name] for row in curve]  # type: ignore[literal-required]
                axes.plot([row["turn"] for row in curve], values, marker="o", label=mode)
            axes.set_title(benchmark, fontsize="medium")
            axes.set_ylabel(label, fontsize="small")
            axes.set_ylim(bottom=0)
            axes.set_xticks(sorted({row["turn"] for row in rows if row["benchmark"] == benchmark}))
    for axes in panels[-1]:
        axes.set_xlabel("turn")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(modes))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sessions.svg"
    figure.savefig(path, metadata={"Date": None})
    return path
