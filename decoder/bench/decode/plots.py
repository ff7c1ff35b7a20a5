"""Plots of `bench decode`'s result, as SVG. Needs matplotlib, which nothing else does."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decoder.bench.decode.rows import PLAIN
from decoder.bench.results import Row
from decoder.recording.prompts import BenchError

_BARS = {"mat": "tokens a target pass (MAT)", "speedup_vs_plain": "decode speed-up over plain"}
_DRAFTED = "drafted, source unknown"
_CHOSEN = "chosen by the target"


def require_matplotlib() -> None:
    """Raises BenchError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("plots need matplotlib; install it with `pip install matplotlib`, or leave the option out")


def draw(rows: Sequence[Row], folder: Path, cost_curve: Mapping[str, Any] | None = None) -> list[Path]:
    """Draw MAT and speed-up by category, the tokens' sources, and the cost curve if there is one.

    Returns the files written.
    """
    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    written = [_bars(rows, name, label, folder / f"{name}.svg") for name, label in _BARS.items()]
    written.append(_sources(rows, folder / "sources.svg"))
    if cost_curve is not None:
        written.append(_cost_curve(cost_curve, folder / "cost_curve.svg"))
    return written


def shares(row: Row) -> dict[str, float]:
    """The sources of a row's tokens, as shares of all of them: kinds of text, drafts that copy no text, the target.

    A peer's copies have no known source: they count as drafts.
    """
    tokens = row["tokens"]
    if not tokens:
        return {}
    accepted = sum(count for _, count in row["by_source"].values())
    drafted = accepted - sum(row["by_kind"].values())
    counts = {**dict(sorted(row["by_kind"].items())), _DRAFTED: drafted, _CHOSEN: tokens - accepted}
    return {name: count / tokens for name, count in counts.items() if count}


def _bars(rows: Sequence[Row], name: str, label: str, path: Path) -> Path:
    """One bar per drafter, grouped by category."""
    from matplotlib.figure import Figure

    values = {(_group(row), row["drafter"]): row for row in rows}
    groups, drafters = list(dict.fromkeys(map(_group, rows))), _drafters(rows)
    figure = Figure(figsize=(8, 1.5 + 0.25 * len(groups) * len(drafters)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(drafters)
    for number, drafter in enumerate(drafters):
        lengths = [values[group, drafter][name] or 0.0 for group in groups]
        axes.barh([line + number * height for line in range(len(groups))], lengths, height, label=drafter)
    axes.axvline(1.0, color="grey", linewidth=0.8)
    middle = height * (len(drafters) - 1) / 2
    axes.set_yticks([line + middle for line in range(len(groups))], groups)
    axes.set_ylim(len(groups), -1)  # the first on top
    axes.set_xlabel(label)
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def _sources(rows: Sequence[Row], path: Path) -> Path:
    """One panel per drafter: each category's tokens by source."""
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys(map(_group, rows)))
    drafters = [d for d in _drafters(rows) if any(row["by_source"] for row in rows if row["drafter"] == d)] or [PLAIN]
    by_source = {(_group(row), row["drafter"]): shares(row) for row in rows}
    names = [name for name in dict.fromkeys(n for sources in by_source.values() for n in sources) if name != _CHOSEN]
    figure = Figure(figsize=(9, len(drafters) * (1.2 + 0.22 * len(groups))), layout="constrained")
    panels = figure.subplots(len(drafters), 1, squeeze=False)[:, 0]
    for axes, drafter in zip(panels, drafters, strict=True):
        starts = [0.0] * len(groups)
        for number, name in enumerate([*names, _CHOSEN]):
            lengths = [by_source[group, drafter].get(name, 0.0) for group in groups]
            colour = "lightgrey" if name == _CHOSEN else f"C{number}"
            axes.barh(range(len(groups)), lengths, 0.8, left=starts, label=name, color=colour)
            starts = [start + length for start, length in zip(starts, lengths, strict=True)]
        axes.set_yticks(range(len(groups)), groups, fontsize="small")
        axes.set_ylim(len(groups), -1)  # the first on top
        axes.set_xlim(0, 1)
        axes.set_title(drafter, fontsize="medium")
    panels[-1].set_xlabel("share of the answers' tokens")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path)
    return path


def _cost_curve(curve: Mapping[str, Any], path: Path) -> Path:
    """Milliseconds of a pass by rows, a line per bucket; dashed lines were measured at the start."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (bucket, seconds) in enumerate(curve["seconds"].items()):
        tokens, sequences = (int(part) for part in bucket.split(","))
        cached = f"< {4 ** (tokens + 4):,}"  # CostCurve: powers of 4 from 256 on
        label = f"{cached} cached tokens" + (f", {2**sequences}+ sequences" if sequences else "")
        axes.plot(curve["rows"], [1e3 * s for s in seconds], marker=".", color=f"C{number}", label=label)
        before = curve["seconds_at_start"].get(bucket)
        if before is not None:
            axes.plot(curve["rows"], [1e3 * s for s in before], linestyle="--", linewidth=0.8, color=f"C{number}")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows of a target pass")
    axes.set_ylabel("milliseconds (dashed: measured at the start)")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def _group(row: Row) -> str:
    """A row's benchmark, category and turn as the label of its bars."""
    turn = f", turn {row['turn']}" if row["turn"] != 1 else ""
    return f"{row['benchmark']} {row['category']}{turn}"


def _drafters(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["drafter"]) for row in rows if row["drafter"] != PLAIN)) or [PLAIN]
