"""Rows of `bench decode`: outcomes summed by benchmark, category, turn and drafter. Pure arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from decoder.bench.decode.divergence import CONTROL, control_rate, flip_rate
from decoder.bench.decode.outcomes import Outcome, by_category
from decoder.bench.decode.timing import TimedAnswer
from decoder.bench.results import Row

PLAIN = "plain"


def decode_rows(outcomes: Iterable[Outcome], modes: Sequence[str], *, model: str, dtype: str) -> list[Row]:
    """One row per (benchmark, category, turn, drafter), plain's included.

    Counts (`mat`, `acceptance_rate`, `copied_fraction`, `drafted_per_step`, `tokens_per_s`) are ratios of sums over
    the prompts, and so is `overhead`: drafting and bookkeeping over all decode time, null if it was not timed.
    `draft_ms_per_step` is the time of both in a step, null likewise.
    `by_source` has drafted and accepted tokens, `by_kind` the tokens copied from each kind of text. Speed-ups are
    plain's time over the drafter's on the same prompt, per token, because answers differ in length and a peer's first
    pass may choose several tokens: `speedup_vs_plain` and `total_speedup` are medians, `speedup_min` and
    `speedup_max` the extremes. They are null if no answer has a second token. `flips_per_1000` and
    `control_flips_per_1000` are as in `divergence.py`; the latter is null if the control did not run.
    """
    names = ("benchmark", "category", "turn")
    return [
        {"model": model, "dtype": dtype, **dict(zip(names, category, strict=True)), **_row(group, mode)}
        for category, group in by_category(outcomes).items()
        for mode in modes
    ]


def differences(outcomes: Iterable[Outcome]) -> list[Row]:
    """Every answer's first difference from plain decoding's, and every flip of the control."""
    return [
        {
            **{name: getattr(outcome, name) for name in ("id", "benchmark", "category", "turn")},
            "drafter": mode,
            "token": difference.index,
            "position": difference.position,
            "margin": difference.margin,
        }
        for outcome in outcomes
        for mode, difference in [*outcome.differences.items(), *((CONTROL, flip) for flip in outcome.control or ())]
    ]


def _row(group: Sequence[Outcome], mode: str) -> Row:
    answers = [outcome.answers[mode] for outcome in group]
    pairs = [(outcome.answers[PLAIN], outcome.answers[mode]) for outcome in group]
    speedups = [ratio for plain, answer in pairs if (ratio := decode_ratio(plain, answer)) is not None]
    tokens = sum(len(answer.tokens) for answer in answers)
    steps = sum(answer.steps for answer in answers)
    drafted = sum(answer.drafted for answer in answers)
    speed = tokens_per_second(answers)
    divergent = sum(mode in outcome.differences for outcome in group)
    return {
        "drafter": mode,
        "prompts": len(group),
        "tokens": tokens,
        "mat": round((tokens - len(answers)) / steps, 3) if steps else 1.0,
        "acceptance_rate": round(sum(answer.accepted for answer in answers) / drafted, 4) if drafted else 0.0,
        "copied_fraction": round(sum(answer.copied for answer in answers) / tokens, 4) if tokens else 0.0,
        "drafted_per_step": round(drafted / steps, 3) if steps else 0.0,
        "tokens_per_s": None if speed is None else round(speed, 3),
        "speedup_vs_plain": round(median(speedups), 3) if speedups else None,
        "speedup_min": round(min(speedups), 3) if speedups else None,
        "speedup_max": round(max(speedups), 3) if speedups else None,
        "total_speedup": round(median(_total(plain) / _total(answer) for plain, answer in pairs), 3),
        "identical": len(group) - divergent,
        "divergent": divergent,
        "flips_per_1000": flip_rate(group, mode),
        "control_flips_per_1000": control_rate(group, PLAIN),
        "near_ties": sum(answer.near_ties for answer in answers),
        "overhead": overhead(answers),
        "draft_ms_per_step": draft_ms_per_step(answers),
        "by_source": _by_source(answers),
        "by_kind": dict(sum((Counter(answer.by_kind) for answer in answers), Counter())),
    }


def overhead(answers: Sequence[TimedAnswer]) -> float | None:
    """Drafting and bookkeeping over all decode time; None if they were not timed."""
    draft = sum(answer.draft_ms for answer in answers)
    verify = sum(answer.verify_ms for answer in answers)
    return round(draft / (draft + verify), 5) if draft + verify else None


def draft_ms_per_step(answers: Sequence[TimedAnswer]) -> float | None:
    """Milliseconds of drafting and bookkeeping in a step; None if they were not timed."""
    draft = sum(answer.draft_ms for answer in answers)
    steps = sum(answer.steps for answer in answers)
    return round(draft / steps, 4) if draft and steps else None


def tokens_per_second(answers: Iterable[TimedAnswer]) -> float | None:
    """Decoding speed after the first pass, over all answers; None if no answer has a second token."""
    timed = [answer for answer in answers if answer.seconds_a_token is not None]
    seconds = sum(answer.decode_s for answer in timed)
    return sum(answer.later_tokens for answer in timed) / seconds if seconds else None


def decode_ratio(slow: TimedAnswer, fast: TimedAnswer) -> float | None:
    """Decode time per token of `slow` over that of `fast`; None if either has no second token."""
    ours, theirs = fast.seconds_a_token, slow.seconds_a_token
    return theirs / ours if ours is not None and theirs is not None else None


def _by_source(answers: Iterable[TimedAnswer]) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for answer in answers:
        for name, (drafted, accepted) in answer.by_source.items():
            earlier = counts.get(name, [0, 0])
            counts[name] = [earlier[0] + drafted, earlier[1] + accepted]
    return dict(sorted(counts.items()))


def _total(answer: TimedAnswer) -> float:
    """Seconds per token, prefill included."""
    return (answer.prefill_s + answer.decode_s) / len(answer.tokens)
