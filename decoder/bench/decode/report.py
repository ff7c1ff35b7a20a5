"""The tables of `bench decode`, as Markdown. Knows the result's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decoder.bench.decode.divergence import lines as divergence_lines
from decoder.bench.decode.promise_report import promise_lines
from decoder.bench.decode.rows import Row
from decoder.bench.simulated.report import environment_lines, table

Cell = Callable[[Row], str]


def decode_markdown(result: Mapping[str, Any]) -> str:
    """Speed-ups, MATs, what drafting costs and changes, the promise, and what it ran on."""
    rows: list[Row] = result["rows"]
    tables: list[tuple[str, Cell]] = [
        ("Decode time, plain's over the mode's (median, least to most)", _speedup),
        ("With the prefill", lambda row: f"{row['total_speedup']:.2f}"),
        ("MAT", lambda row: f"{row['mat']:.2f}"),
        ("Acceptance rate / copied fraction / drafted tokens a step", _drafting),
        ("Drafting and bookkeeping, of decode time", _overhead),
        ("Answers that differ from plain's", lambda row: f"{row['divergent']} of {row['prompts']}"),
    ]
    lines = [f"# Decoding with {result['environment']['model']}", ""]
    for title, cell in tables:
        lines += [f"## {title}", "", *_by_mode(rows, cell), ""]
    lines += ["## Flips", "", *(f"* {line}" for line in divergence_lines(result["divergence"])), ""]
    if result["promise"]:
        lines += ["## The promise", "", *promise_lines(result["promise"], result["overhead"]), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def _by_mode(rows: list[Row], cell: Cell) -> list[str]:
    modes = list(dict.fromkeys(row["drafter"] for row in rows))
    tasks: dict[tuple[str, str, int], dict[str, Row]] = {}
    for row in rows:
        tasks.setdefault((row["benchmark"], row["category"], row["turn"]), {})[row["drafter"]] = row
    body = [
        [benchmark, category, str(turn), *(cell(found[mode]) for mode in modes)]
        for (benchmark, category, turn), found in tasks.items()
    ]
    return table(["benchmark", "category", "turn", *modes], body, left=2)


def _speedup(row: Row) -> str:
    if row["speedup_vs_plain"] is None:
        return "–"
    return f"{row['speedup_vs_plain']:.2f} ({row['speedup_min']:.2f}–{row['speedup_max']:.2f})"


def _drafting(row: Row) -> str:
    return f"{row['acceptance_rate']:.2f} / {row['copied_fraction']:.2f} / {row['drafted_per_step']:.1f}"


def _overhead(row: Row) -> str:
    return "–" if row["overhead"] is None else f"{100 * row['overhead']:.2f} %"
