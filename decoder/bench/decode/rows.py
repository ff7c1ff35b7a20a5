"""Rows of `bench decode`: outcomes summed up by benchmark, category, turn and drafter. Pure arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from decoder.bench.decode.divergence import CONTROL, control_rate, flip_rate
from decoder.bench.decode.measurement import Measured
from decoder.bench.decode.outcomes import Outcome

PLAIN = "plain"
Row = dict[str, Any]


def decode_rows(outcomes: Iterable[Outcome], modes: Sequence[str], *, model: str, dtype: str) -> list[Row]:
    """One row per (benchmark, category, turn, drafter), plain's included.

    Counts (`mat`, `acceptance_rate`, `copied_fraction`, `drafted_per_step`, `tokens_per_s`) are ratios of sums over
    the prompts, and so is `overhead`: drafting and bookkeeping over all decode time, null where it was not timed.
    `by_source` has drafted and accepted tokens, `by_kind` the tokens copied from each kind of text. Speed-ups are
    plain's time over the drafter's on the same prompt, per token, for answers differ in length and a peer's first
    pass may choose several tokens: `speedup_vs_plain` and `total_speedup` are medians, `speedup_min` and
    `speedup_max` the ends. They are null where no answer has a second token. `flips_per_1000` and
    `control_flips_per_1000` as in `divergence.py`; the latter is null where the control did not run.
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
    decode = [ratio for plain, answer in pairs if (ratio := decode_ratio(plain, answer)) is not None]
    total = [_total(plain) / _total(answer) for plain, answer in pairs]
    tokens = sum(len(answer.tokens) for answer in answers)
    decoded = tokens - len(answers)
    steps = sum(answer.steps for answer in answers)
    drafted = sum(answer.drafted for answer in answers)
    timed = [answer for answer in answers if answer.seconds_a_token is not None]
    seconds = sum(answer.decode_s for answer in timed)
    behind = sum(len(answer.tokens) - answer.first for answer in timed)
    divergent = sum(mode in outcome.differences for outcome in group)
    return {
        "drafter": mode,
        "prompts": len(group),
        "tokens": tokens,
        "mat": round(decoded / steps, 3) if steps else 1.0,
        "acceptance_rate": round(sum(answer.accepted for answer in answers) / drafted, 4) if drafted else 0.0,
        "copied_fraction": round(sum(answer.copied for answer in answers) / tokens, 4) if tokens else 0.0,
        "drafted_per_step": round(drafted / steps, 3) if steps else 0.0,
        "tokens_per_s": round(behind / seconds, 3) if seconds else None,
        "speedup_vs_plain": round(median(decode), 3) if decode else None,
        "speedup_min": round(min(decode), 3) if decode else None,
        "speedup_max": round(max(decode), 3) if decode else None,
        "total_speedup": round(median(total), 3),
        "identical": len(group) - divergent,
        "divergent": divergent,
        "flips_per_1000": flip_rate(group, mode),
        "control_flips_per_1000": control_rate(group, PLAIN),
        "near_ties": sum(answer.near_ties for answer in answers),
        "overhead": overhead(answers),
        "by_source": _by_source(answers),
        "by_kind": dict(sum((Counter(answer.by_kind) for answer in answers), Counter())),
    }


def overhead(answers: Iterable[Measured]) -> float | None:
    """Drafting and bookkeeping over all decode time; None where nobody timed them."""
    answers = list(answers)
    draft = sum(answer.draft_ms for answer in answers)
    verify = sum(answer.verify_ms for answer in answers)
    return round(draft / (draft + verify), 5) if draft + verify else None


def decode_ratio(slow: Measured, fast: Measured) -> float | None:
    """Decode time a token of the one over that of the other; None where one has no second token."""
    ours, theirs = fast.seconds_a_token, slow.seconds_a_token
    return theirs / ours if ours is not None and theirs is not None else None


def _by_source(answers: Iterable[Measured]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for answer in answers:
        for name, (drafted, accepted) in answer.by_source.items():
            before = found.get(name, [0, 0])
            found[name] = [before[0] + drafted, before[1] + accepted]
    return dict(sorted(found.items()))


def _total(answer: Measured) -> float:
    """Seconds a token, prefill and all."""
    return (answer.prefill_s + answer.decode_s) / len(answer.tokens)
