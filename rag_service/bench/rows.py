"""Summaries of measured conversations: rows by benchmark and turn, the savings of reuse, and differences. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from rag_service.bench.conversations import LONG
from rag_service.bench.outcomes import Measured, Turn

PLAIN = "plain"
ByMode = Mapping[str, Mapping[str, Measured]]
"""Conversation id -> mode -> the measured conversation."""


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
    """Share of the previous turn's prompt tokens; None for first turns."""
    first_token_ms: float
    job_ms: float
    seen_first_ms: float
    seen_ms: float
    rewrite_ms: float | None
    """Of the questions that were rewritten."""


class Difference(TypedDict):
    """The first difference between a conversation in a mode and the one it is compared with.

    `what` is `passages` (rewriting a question took too long in one of them), `ids` or, if these are equal, `text`,
    `citations` or `finish_reason`, which are bugs. `margin` is the logit margin of plain's own token; None if unknown.
    """

    conversation: str
    benchmark: str
    turn: int
    mode: str
    compared_with: str
    what: str
    index: int | None
    margin: float | None


def grouped(conversations: Sequence[Measured]) -> dict[str, dict[str, Measured]]:
    """By conversation and mode."""
    groups: dict[str, dict[str, Measured]] = {}
    for measured in conversations:
        groups.setdefault(measured.id, {})[measured.mode] = measured
    return groups


def session_rows(conversations: ByMode, modes: Sequence[str]) -> list[SessionRow]:
    """A row for each benchmark, turn and mode, of the conversations measured in all modes."""
    groups: dict[tuple[str, int, str], list[tuple[Turn, Turn | None]]] = {}
    for by_mode in conversations.values():
        if not all(mode in by_mode for mode in modes):
            continue
        for mode in modes:
            measured = by_mode[mode]
            for number, turn in enumerate(measured.turns):
                before = measured.turns[number - 1] if number else None
                groups.setdefault((measured.benchmark, number + 1, mode), []).append((turn, before))
    order = {mode: number for number, mode in enumerate(modes)}
    benchmarks = {benchmark: number for number, (benchmark, _, _) in enumerate(groups)}
    sort = sorted(groups, key=lambda key: (benchmarks[key[0]], key[1], order[key[2]]))
    return [_row(*key, groups[key]) for key in sort]


def _row(benchmark: str, turn: int, mode: str, measured: Sequence[tuple[Turn, Turn | None]]) -> SessionRow:
    turns = [one for one, _ in measured]
    steps = sum(one.steps for one in turns)
    after_first = sum(max(one.tokens - 1, 0) for one in turns)
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
        mat=round(after_first / steps, 4) if steps else 1.0,
        tokens_per_s=round(after_first / seconds, 3) if seconds > 0 else None,
        prompt_tokens=sum(one.prompt_tokens for one in turns),
        reused_tokens=sum(one.cached_tokens for one in turns),
        reused_of_earlier=round(statistics.mean(shares), 4) if shares else None,
        first_token_ms=_median(one.first_token_ms for one in turns),
        job_ms=_median(one.job_ms for one in turns),
        seen_first_ms=_median(one.seen_first_ms for one in turns),
        seen_ms=_median(one.seen_ms for one in turns),
        rewrite_ms=_median(rewrites) if rewrites else None,
    )


def follow_ups(conversations: ByMode, reuse: str, without: str) -> dict[str, Any] | None:
    """Times to first token of follow-ups in long conversations, compared with cold starts of the same prompts.

    A cold start runs on a worker without reuse. None if there are no such pairs.
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
        for name, by_mode in conversations.items()
        if reuse in by_mode and without in by_mode and by_mode[reuse].benchmark == LONG
        for number, (warm, cold) in enumerate(zip(by_mode[reuse].turns, by_mode[without].turns, strict=True))
        if number and warm.prompt_tokens == cold.prompt_tokens
    ]
    if not pairs:
        return None
    ratios = [float(str(pair["ratio"])) for pair in pairs]
    return {"median_ratio": _median(ratios), "worst_ratio": max(ratios), "pairs": pairs}


def differences(conversations: ByMode, modes: Sequence[str]) -> tuple[list[Difference], int]:
    """(first difference of each conversation and mode from plain, number of tokens compared).

    The turns after a difference have another history and are not compared.
    """
    first_differences: list[Difference] = []
    compared = 0
    for name, by_mode in conversations.items():
        for mode in modes:
            if mode == PLAIN or mode not in by_mode or PLAIN not in by_mode:
                continue
            measured = by_mode[mode]
            for number, (turn, plain) in enumerate(zip(measured.turns, by_mode[PLAIN].turns, strict=True), 1):
                what, index = _difference(turn, plain)
                compared += turn.tokens if index is None else index + 1
                if what is not None:
                    first_differences.append(
                        Difference(
                            conversation=name,
                            benchmark=measured.benchmark,
                            turn=number,
                            mode=mode,
                            compared_with=PLAIN,
                            what=what,
                            index=index,
                            margin=None,
                        )
                    )
                    break
    return first_differences, compared


def _difference(turn: Turn, plain: Turn) -> tuple[str | None, int | None]:
    """(what differs, index of the first token that differs)."""
    if turn.passages != plain.passages:
        return "passages", None
    if turn.ids != plain.ids:
        pairs = zip(turn.ids, plain.ids, strict=False)
        return "ids", next((i for i, (a, b) in enumerate(pairs) if a != b), min(turn.tokens, plain.tokens))
    for what in ("text", "citations", "finish_reason"):
        if getattr(turn, what) != getattr(plain, what):
            return what, None
    return None, None


def _median(values: Any) -> float:
    return round(float(statistics.median(values)), 4)
