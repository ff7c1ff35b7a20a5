"""The tables of `bench sessions`, as Markdown. Knows the result's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoder.bench.results import environment_lines, table
from rag_service.bench.rows import SessionRow

MODES = (
    "Over HTTP, through Redis and a Celery worker. `without reuse`: the worker keeps no keys and values of earlier "
    "turns. `plain`: that, and no speculation. Every conversation is held in all modes before the next."
)
Cell = Callable[[SessionRow], str]
NEAR_TIE = 1e-3
BAR = 0.25
"""Of a cold start's time to first token, that a follow-up may take."""


def markdown(result: Mapping[str, Any]) -> str:
    """What each turn costs in each mode, what reuse saves, whether texts are the same, and what it ran on."""
    rows: Sequence[SessionRow] = result["rows"]
    tables: list[tuple[str, str, Cell]] = [
        ("MAT by turn", "", lambda row: f"{row['mat']:.2f}"),
        ("Tokens a second by turn, behind the first token", "", _speed),
        (
            "Time to first token by turn",
            "Milliseconds from the job's start, median.",
            lambda r: f"{r['first_token_ms']:.0f}",
        ),
        (
            "Whole answers by turn",
            "Milliseconds from the client's request, median: retrieval, queue and network are in it.",
            lambda row: f"{row['seen_ms']:.0f}",
        ),
        (
            "Prompt tokens reused",
            "Of all prompt tokens; in brackets the share of the turn before's prompt.",
            _reused,
        ),
        ("Target passes / tokens", "", lambda row: f"{row['steps']} / {row['tokens']}"),
    ]
    if any(row["rewrite_ms"] is not None for row in rows):
        note = "Milliseconds before the job, median; in no other time but that of whole answers."
        tables.append(("Questions rewritten", note, _rewrite))
    lines = ["# Conversations", "", MODES, ""]
    for title, note, cell in tables:
        lines += [f"## {title}", "", *([note, ""] if note else []), *_by_mode(rows, cell), ""]
    lines += _follow_ups(result["follow_ups"])
    lines += ["## Same texts and citations", "", *said(result), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def said(result: Mapping[str, Any]) -> list[str]:
    """Whether the modes agree, a line for each difference."""
    same = result["identical"]
    found = same["differences"]
    lines = [
        f"{same['tokens_compared']:,} tokens compared, {len(found)} differences in {same['conversations']} "
        + "conversations; "
        + ("the rule for float32 holds." if same["holds"] else "**this breaks the rule for float32.**")
    ]
    for one in found:
        margin = "not known" if one["margin"] is None else f"{one['margin']:.2g}"
        where = "other passages were found" if one["what"] == "passages" else f"its {one['what']}: a bug"
        if one["what"] == "ids":
            where = f"token {one['index']}, plain's margin {margin}"
        lines.append(f"* {one['conversation']}, turn {one['turn']}, {one['mode']}: {where}")
    return lines


def holds(differences: Sequence[Mapping[str, Any]], compared: int) -> bool:
    """The rule for float32: differences at near-ties alone, and at most one in 10,000 tokens (one in a short run)."""
    explained = all(
        one["what"] == "ids" and one["margin"] is not None and one["margin"] <= NEAR_TIE for one in differences
    )
    return explained and len(differences) <= max(1, compared // 10_000)


def _follow_ups(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
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
        for pair in found["pairs"]
    ]
    met = "met" if found["median_ratio"] <= BAR else "missed"
    return [
        "## Follow-ups against cold starts",
        "",
        f"Time to first token from the job's start, without retrieval: median {found['median_ratio']:.3f} of a cold "
        f"start, at worst {found['worst_ratio']:.3f} (bar {BAR}: {met}).",
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
        [benchmark, str(turn), str(next(iter(found.values()))["conversations"]), *(cell(found[m]) for m in modes)]
        for (benchmark, turn), found in turns.items()
    ]
    return table(["benchmark", "turn", "conversations", *modes], body, left=1)


def _speed(row: SessionRow) -> str:
    return "–" if row["tokens_per_s"] is None else f"{row['tokens_per_s']:.1f}"


def _rewrite(row: SessionRow) -> str:
    return "–" if row["rewrite_ms"] is None else f"{row['rewrite_ms']:.0f}"


def _reused(row: SessionRow) -> str:
    share = "" if row["reused_of_earlier"] is None else f" ({100 * row['reused_of_earlier']:.0f} %)"
    return f"{row['reused_tokens']} of {row['prompt_tokens']}{share}"
