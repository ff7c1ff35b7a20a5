"""Result files of benchmarks: JSON for programs, Markdown tables for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""One drafter on one benchmark, category and turn."""


def write_json(path: Path, value: object) -> None:
    """Write a result. The file is replaced only after all of it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def write_markdown(path: Path | None, text: str) -> None:
    """Write a report; do nothing without a path."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def environment_lines(facts: Mapping[str, object]) -> list[str]:
    """The environment of a run as a Markdown section."""
    return ["## Environment", "", *(f"* {name}: `{value}`" for name, value in facts.items()), ""]


def table(head: Sequence[str], body: Sequence[Sequence[str]], left: int) -> list[str]:
    """A Markdown table whose first `left` columns are text and whose other columns are numbers."""
    rule = ["---" if column < left else "---:" for column in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def table_by_drafter(rows: Iterable[Row], cell: Callable[[Row], str], totals: Sequence[str] = ()) -> list[str]:
    """A Markdown table with a line per benchmark, category and turn, and a column per drafter.

    Args:
        cell: the text of one drafter's cell.
        totals: fields that are equal for all drafters of a line; they become columns before the drafters'.
    """
    drafters: dict[str, None] = {}
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        drafters[row["drafter"]] = None
        names = ("benchmark", "category", "turn", *totals)
        lines.setdefault(tuple(str(row[name]) for name in names), []).append(cell(row))
    head = ["benchmark", "category", "turn", *("answers" if name == "prompts" else name for name in totals), *drafters]
    return table(head, [[*key, *cells] for key, cells in lines.items()], left=2)


def drafting_cell(row: Row) -> str:
    """Acceptance rate, copied fraction and drafted tokens per step."""
    return f"{row['acceptance_rate']:.2f} / {row['copied_fraction']:.2f} / {row['drafted_per_step']:.1f}"
