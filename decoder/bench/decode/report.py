"""The tables of `bench decode`, as Markdown. Knows the result's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decoder.bench.decode.divergence import lines as divergence_lines
from decoder.bench.decode.slowdown_check import report_lines
from decoder.bench.results import Row, drafting_cell, environment_lines, table_by_drafter

_TABLES: dict[str, Callable[[Row], str]] = {
    "Decode time, plain's over the mode's (median, least to most)": lambda row: (
        "–"
        if row["speedup_vs_plain"] is None
        else f"{row['speedup_vs_plain']:.2f} ({row['speedup_min']:.2f}–{row['speedup_max']:.2f})"
    ),
    "With the prefill": lambda row: f"{row['total_speedup']:.2f}",
    "MAT": lambda row: f"{row['mat']:.2f}",
    "Acceptance rate / copied fraction / drafted tokens a step": drafting_cell,
    "Drafting and bookkeeping, of decode time": lambda row: (
        "–" if row["overhead"] is None else f"{100 * row['overhead']:.2f} %"
    ),
    "Drafting and bookkeeping, milliseconds a step": lambda row: (
        "–" if row["draft_ms_per_step"] is None else f"{row['draft_ms_per_step']:.2f}"
    ),
    "Answers that differ from plain's": lambda row: f"{row['divergent']} of {row['prompts']}",
}


def decode_markdown(result: Mapping[str, Any]) -> str:
    """Speed-ups, MATs, costs and effects of drafting, the check for slowdowns, and the environment."""
    lines = [f"# Decoding with {result['environment']['model']}", ""]
    for title, cell in _TABLES.items():
        lines += [f"## {title}", "", *table_by_drafter(result["rows"], cell), ""]
    lines += ["## Flips", "", *(f"* {line}" for line in divergence_lines(result["divergence"])), ""]
    if result["promise"]:
        lines += ["## The promise", "", *report_lines(result["promise"], result["overhead"]), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])
