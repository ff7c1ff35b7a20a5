"""The tables of `bench sessions`, as Markdown, from the result's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoder.bench.results import environment_lines, table
from rag_service.bench.rows import SessionRow

MODES = (
    "Over HTTP, through Redis and a Celery worker. `without reuse`: the worker keeps no keys and values of earlier "
    "turns. `plain`: also no speculation. Every conversation runs in all modes before the next."
)
Cell = Callable[[SessionRow], str]
NEAR_TIE = 1e-3
BAR = 0.25
"""Largest share of a cold start's time to first token that a follow-up may take."""


def markdown(result: Mapping[str, Any]) -> str:
    """The costs of each turn in each mode, the savings of reuse, the differences, and the environment."""
    rows: Sequence[SessionRow] = result["rows"]
    tables: list[tuple[str, str, Cell]] = [
        ("MAT by turn", "", lambda row: f"{row['mat']:.2f}"),
        ("Tokens a second by turn, after the first token", "", lambda row: _rounded(row["tokens_per_s"], 1)),
        (
            "Time to first token by turn",
            "Milliseconds from the job's start, median.",
            lambda r: f"{r['first_token_ms']:.0f}",
        ),
        (
            "Whole answers by turn",
            "Milliseconds from the client's request, median, with retrieval, queue and network.",
            lambda row: f"{row['seen_ms']:.0f}",
        ),
        (
            "Prompt tokens reused",
            "Of all prompt tokens; in brackets the share of the previous turn's prompt.",
            _reused,
        ),
        ("Target passes / tokens", "", lambda row: f"{row['steps']} / {row['tokens']}"),
    ]
    if any(row["rewrite_ms"] is not None for row in rows):
        note = "Milliseconds before the job, median; included in whole answers only."
        tables.append(("Questions rewritten", note, lambda row: _rounded(row["rewrite_ms"], 0)))
    lines = ["# Conversations", "", MODES, ""]
    for title, note, cell in tables:
        lines += [f"## {title}", "", *([note, ""] if note else []), *_by_mode(rows, cell), ""]
    lines += _follow_ups(result["follow_ups"])
    lines += ["## Same texts and citations", "", *differences_lines(result), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def differences_lines(result: Mapping[str, Any]) -> list[str]:
    """Whether the modes agree, and a line for each difference."""
    identical = result["identical"]
    verdict = "the rule for float32 holds." if identical["holds"] else "**this breaks the rule for float32.**"
    lines = [
        f"{identical['tokens_compared']:,} tokens compared, {len(identical['differences'])} differences in "
        f"{identical['conversations']} conversations; {verdict}"
    ]
    for difference in identical["differences"]:
        what = difference["what"]
        description = "other passages were retrieved" if what == "passages" else f"its {what}: a bug"
        if what == "ids":
            margin = "unknown" if difference["margin"] is None else f"{difference['margin']:.2g}"
            description = f"token {difference['index']}, plain's margin {margin}"
        lines.append(f"* {difference['conversation']}, turn {difference['turn']}, {difference['mode']}: {description}")
    return lines


def holds(differences: Sequence[Mapping[str, Any]], compared: int) -> bool:
    """The rule for float32: differences only at near-ties, and at most one in 10,000 tokens (one in a short run)."""
    explained = all(
        one["what"] == "ids" and one["margin"] is not None and one["margin"] <= NEAR_TIE for one in differences
    )
    return explained and len(differences) <= max(1, compared // 10_000)


def _follow_ups(follow_ups: Mapping[str, Any] | None) -> list[str]:
    if follow_ups is None:
        return []
    head = ["conversation", "turn", "prompt tokens", "reused", "first token, ms", "cold start, ms", "ratio"]
    body = [
        [
            pair["conversation"],
            str(pair["turn"]),
            str(pair["prompt_tokens"]),
            str(pair["reused_tokens"]),
            f"{pair['first_token_ms']:.0f}",
            f"{pair['cold_first_token_ms']:.0f}",
            f"{pair['ratio']:.3f}",
        ]
        for pair in follow_ups["pairs"]
    ]
    met = "met" if follow_ups["median_ratio"] <= BAR else "missed"
    return [
        "## Follow-ups against cold starts",
        "",
        "Time to first token from the job's start, without retrieval: "
        f"median {follow_ups['median_ratio']:.3f} of a cold start, at worst {follow_ups['worst_ratio']:.3f} "
        f"(bar {BAR}: {met}).",
        "",
        *table(head, body, left=1),
        "",
    ]


def _by_mode(rows: Sequence[SessionRow], cell: Cell) -> list[str]:
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    turns: dict[tuple[str, int], dict[str, SessionRow]] = {}
    for row in rows:
        turns.setdefault((row["benchmark"], row["turn"]), {})[row["mode"]] = row
    body = [
        [benchmark, str(turn), str(by_mode[modes[0]]["conversations"]), *(cell(by_mode[mode]) for mode in modes)]
        for (benchmark, turn), by_mode in turns.items()
    ]
    return table(["benchmark", "turn", "conversations", *modes], body, left=1)


def _rounded(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _reused(row: SessionRow) -> str:
    share = "" if row["reused_of_earlier"] is None else f" ({100 * row['reused_of_earlier']:.0f} %)"
    return f"{row['reused_tokens']} of {row['prompt_tokens']}{share}"
