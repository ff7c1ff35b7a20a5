"""What was measured, summed up: rows by benchmark and turn, what reuse saves, and where texts differ. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from rag_service.bench.conversations import LONG
from rag_service.bench.outcomes import Talked, Turn

PLAIN = "plain"
Held = Mapping[str, Mapping[str, Talked]]
"""Conversation id -> mode -> what was measured."""


class SessionRow(TypedDict):
    """One turn of one benchmark in one mode. Times are medians over the conversations, in milliseconds."""

    benchmark: str
    turn: int
    mode: str
    conversations: int
    tokens: int
    steps: int
    mat: float
    tokens_per_s: float | None
    prompt_tokens: int
    reused_tokens: int
    reused_of_earlier: float | None
    """Of the tokens of the turn before's prompt; None for first turns."""
    first_token_ms: float
    job_ms: float
    seen_first_ms: float
    seen_ms: float
    rewrite_ms: float | None
    """Of the questions that were rewritten to look for passages."""


class Difference(TypedDict):
    """Where a conversation in a mode first leaves the one it is compared with.

    `what` is `passages` where others were found (rewriting a question took too long in one of them), `ids`, or where
    those are equal `text`, `citations` or `finish_reason`: those are bugs. `margin` is by how much plain preferred its
    own token, None where that is not known.
    """

    conversation: str
    benchmark: str
    turn: int
    mode: str
    compared_with: str
    what: str
    index: int | None
    margin: float | None


def grouped(talked: Sequence[Talked]) -> dict[str, dict[str, Talked]]:
    """By conversation and mode."""
    held: dict[str, dict[str, Talked]] = {}
    for one in talked:
        held.setdefault(one.id, {})[one.mode] = one
    return held


def session_rows(held: Held, modes: Sequence[str]) -> list[SessionRow]:
    """A row for each benchmark, turn and mode, of the conversations that were held in all modes."""
    groups: dict[tuple[str, int, str], list[tuple[Turn, Turn | None]]] = {}
    for by_mode in held.values():
        if not all(mode in by_mode for mode in modes):
            continue
        for mode in modes:
            talked = by_mode[mode]
            for number, turn in enumerate(talked.turns):
                before = talked.turns[number - 1] if number else None
                groups.setdefault((talked.benchmark, number + 1, mode), []).append((turn, before))
    order = {mode: number for number, mode in enumerate(modes)}
    benchmarks = {benchmark: number for number, (benchmark, _, _) in enumerate(groups)}
    sort = sorted(groups, key=lambda key: (benchmarks[key[0]], key[1], order[key[2]]))
    return [_row(*key, groups[key]) for key in sort]


def _row(benchmark: str, turn: int, mode: str, measured: Sequence[tuple[Turn, Turn | None]]) -> SessionRow:
    turns = [one for one, _ in measured]
    steps = sum(one.steps for one in turns)
    behind_first = sum(max(one.tokens - 1, 0) for one in turns)
    seconds = sum(one.decode_ms for one in turns if one.tokens > 1) / 1000
    rewrites = [one.rewrite_ms for one in turns if one.rewrite_ms is not None]
    shares = [min(one.cached_tokens / before.prompt_tokens, 1.0) for one, before in measured if before is not None]
    return SessionRow(
        benchmark=benchmark,
        turn=turn,
        mode=mode,
        conversations=len(turns),
        tokens=sum(one.tokens for one in turns),
        steps=steps,
        mat=round(behind_first / steps, 4) if steps else 1.0,
        tokens_per_s=round(behind_first / seconds, 3) if seconds > 0 else None,
        prompt_tokens=sum(one.prompt_tokens for one in turns),
        reused_tokens=sum(one.cached_tokens for one in turns),
        reused_of_earlier=round(statistics.mean(shares), 4) if shares else None,
        first_token_ms=_median(one.first_token_ms for one in turns),
        job_ms=_median(one.job_ms for one in turns),
        seen_first_ms=_median(one.seen_first_ms for one in turns),
        seen_ms=_median(one.seen_ms for one in turns),
        rewrite_ms=_median(rewrites) if rewrites else None,
    )


def follow_ups(held: Held, reuse: str, without: str) -> dict[str, Any] | None:
    """Times to first token of follow-ups in the conversations with a long prompt, against cold starts of the same.

    A cold start is the same prompt on a worker that keeps nothing. None where there are no such pairs.
    """
    pairs = [
        {
            "conversation": name,
            "turn": number + 1,
            "prompt_tokens": warm.prompt_tokens,
            "reused_tokens": warm.cached_tokens,
            "first_token_ms": warm.first_token_ms,
            "cold_first_token_ms": cold.first_token_ms,
            "ratio": round(warm.first_token_ms / cold.first_token_ms, 4),
        }
        for name, by_mode in held.items()
        if reuse in by_mode and without in by_mode and by_mode[reuse].benchmark == LONG
        for number, (warm, cold) in enumerate(zip(by_mode[reuse].turns, by_mode[without].turns, strict=True))
        if number and warm.prompt_tokens == cold.prompt_tokens
    ]
    if not pairs:
        return None
    ratios = [float(str(pair["ratio"])) for pair in pairs]
    return {"median_ratio": _median(ratios), "worst_ratio": max(ratios), "pairs": pairs}


def differences(held: Held, modes: Sequence[str]) -> tuple[list[Difference], int]:
    """(first difference of each conversation and mode from plain or, without plain, the last mode; tokens compared).

    What follows a difference has another history and is not compared.
    """
    base = PLAIN if PLAIN in modes else modes[-1]
    found: list[Difference] = []
    compared = 0
    for name, by_mode in held.items():
        for mode in modes:
            if mode == base or mode not in by_mode or base not in by_mode:
                continue
            ours, theirs = by_mode[mode], by_mode[base]
            for number, (mine, other) in enumerate(zip(ours.turns, theirs.turns, strict=True), 1):
                what, index = _leaves(mine, other)
                compared += mine.tokens if index is None else index + 1
                if what is not None:
                    said = {"conversation": name, "benchmark": ours.benchmark, "turn": number, "mode": mode}
                    told = {"compared_with": base, "what": what, "index": index, "margin": None}
                    found.append(Difference(**said, **told))  # type: ignore[typeddict-item]
                    break
    return found, compared


def _leaves(mine: Turn, other: Turn) -> tuple[str | None, int | None]:
    """(what differs, index of the first token that does)."""
    if mine.passages != other.passages:
        return "passages", None
    if mine.ids != other.ids:
        pairs = zip(mine.ids, other.ids, strict=False)
        return "ids", next((i for i, (a, b) in enumerate(pairs) if a != b), min(mine.tokens, other.tokens))
    for what in ("text", "citations", "finish_reason"):
        if getattr(mine, what) != getattr(other, what):
            return what, None
    return None, None


def _median(values: Any) -> float:
    return round(float(statistics.median(values)), 4)
