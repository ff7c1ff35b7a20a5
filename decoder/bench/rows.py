"""Rows of `bench decode`: outcomes summed up by benchmark, category, turn and drafter. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from decoder.bench.divergence import CONTROL, control_rate, flip_rate
from decoder.bench.measure import Measured
from decoder.bench.outcomes import Outcome

PLAIN = "plain"
Row = dict[str, Any]


def decode_rows(outcomes: Iterable[Outcome], modes: Sequence[str], *, model: str, dtype: str) -> list[Row]:
    """One row per (benchmark, category, turn, drafter), plain's included.

    Counts (`mat`, `acceptance_rate`, `copied_fraction`, `drafted_per_step`, `tokens_per_s`) are ratios of sums over
    the prompts. Speed-ups are plain's time over the drafter's on the same prompt, per token where the two answers
    differ in length: `speedup_vs_plain` and `total_speedup` are medians, `speedup_min` and `speedup_max` the ends.
    They are null where no answer has a second token. `flips_per_1000` and `control_flips_per_1000` as in
    `divergence.py`; the latter is null where the control did not run.
    """
    groups: dict[tuple[str, str, int], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.benchmark, outcome.category, outcome.turn), []).append(outcome)
    return [
        {"model": model, "dtype": dtype, "benchmark": key[0], "category": key[1], "turn": key[2], **_row(group, mode)}
        for key, group in sorted(groups.items())
        for mode in modes
    ]


def differences(outcomes: Iterable[Outcome]) -> list[Row]:
    """Every answer that left plain decoding's: where, and how near a tie plain was there; the control's flips too."""
    return [
        {
            "id": outcome.id,
            "benchmark": outcome.benchmark,
            "category": outcome.category,
            "turn": outcome.turn,
            "drafter": mode,
            "token": difference.index,
            "position": difference.position,
            "margin": difference.margin,
        }
        for outcome in outcomes
        for mode, difference in [
            *outcome.differences.items(),
            *((CONTROL, flip) for flip in outcome.control or ()),
        ]
    ]


def _row(group: Sequence[Outcome], mode: str) -> Row:
    answers = [outcome.answers[mode] for outcome in group]
    plains = [outcome.answers[PLAIN] for outcome in group]
    pairs = list(zip(plains, answers, strict=True))
    decode = [_per_token(p.decode_s, p, 1) / _per_token(a.decode_s, a, 1) for p, a in pairs if _decoded(p, a)]
    total = [_per_token(p.prefill_s + p.decode_s, p, 0) / _per_token(a.prefill_s + a.decode_s, a, 0) for p, a in pairs]
    tokens = sum(len(answer.tokens) for answer in answers)
    decoded = tokens - len(answers)
    steps = sum(answer.steps for answer in answers)
    drafted = sum(answer.drafted for answer in answers)
    seconds = sum(answer.decode_s for answer in answers)
    divergent = sum(mode in outcome.differences for outcome in group)
    return {
        "drafter": mode,
        "prompts": len(group),
        "tokens": tokens,
        "mat": round(decoded / steps, 3) if steps else 1.0,
        "acceptance_rate": round(sum(answer.accepted for answer in answers) / drafted, 4) if drafted else 0.0,
        "copied_fraction": round(sum(answer.copied for answer in answers) / tokens, 4) if tokens else 0.0,
        "drafted_per_step": round(drafted / steps, 3) if steps else 0.0,
        "tokens_per_s": round(decoded / seconds, 3) if decoded and seconds else None,
        "speedup_vs_plain": round(median(decode), 3) if decode else None,
        "speedup_min": round(min(decode), 3) if decode else None,
        "speedup_max": round(max(decode), 3) if decode else None,
        "total_speedup": round(median(total), 3),
        "identical": len(group) - divergent,
        "divergent": divergent,
        "flips_per_1000": flip_rate(group, mode),
        "control_flips_per_1000": control_rate(group, PLAIN),
        "near_ties": sum(answer.near_ties for answer in answers),
    }


def _decoded(*answers: Measured) -> bool:
    return all(len(answer.tokens) > 1 and answer.decode_s > 0 for answer in answers)


def _per_token(seconds: float, answer: Measured, before: int) -> float:
    """Seconds a token, `before` tokens not counted."""
    return seconds / (len(answer.tokens) - before)
