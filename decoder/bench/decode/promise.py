"""What `auto` promises, held to measured answers: on no task slower than plain decoding or than the best single
drafter.

A task is a category and turn. Its ratios are paired, other time over auto's time on the same prompt, decode time a
token; above 1 auto is faster. Their geometric mean gets a bootstrap interval. The promise is broken where the whole
interval lies below `BAR`; that it lies above is more than was promised, and said too. The best single drafter is
chosen on one half of a task's prompts and compared on the other, both ways round, so that luck in choosing is not
compared with. Peers are compared in the same way, without a bar.

Pure arithmetic; knows outcomes, no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from decoder.bench.decode.outcomes import Outcome
from decoder.bench.decode.peers import is_peer
from decoder.bench.decode.rows import PLAIN, decode_ratio, overhead
from decoder.recording.specs import parse_spec, split_exact

AUTO = "auto"
BAR = 0.98
BEST = "best single drafter"
OVERHEAD = 0.02
"""Most of its decode time that a drafter may take for itself."""
SAMPLES = 10_000
Task = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """One comparison on one task.

    Attributes:
        against: "plain", BEST, or a peer's spec.
        chosen: the drafters that were best on either half, where `against` is BEST.
        pairs: prompts compared.
        ratio: geometric mean of other time over auto's time.
        low, high: its 95 % interval.
        promised: whether there is a bar for it.
        verdict: "kept" for an interval above the bar, "open" for one around it, "broken" for one below.
    """

    benchmark: str
    category: str
    turn: int
    against: str
    chosen: list[str]
    pairs: int
    ratio: float
    low: float
    high: float
    promised: bool
    verdict: str


def promise(outcomes: Iterable[Outcome], modes: Sequence[str], auto: str = AUTO) -> list[dict[str, Any]]:
    """Every comparison of every task, as JSON objects; those without a pair that can be timed are left out."""
    tasks: dict[Task, list[Outcome]] = {}
    for outcome in outcomes:
        tasks.setdefault((outcome.benchmark, outcome.category, outcome.turn), []).append(outcome)
    singles = [mode for mode in modes if is_single(mode, auto)]
    found: list[Kept | None] = []
    for task, group in sorted(tasks.items()):
        found.append(_kept(task, PLAIN, ratios(group, PLAIN, auto)))
        if singles:
            found.append(_against_best(task, group, singles, auto))
        for mode in modes:
            if is_peer(mode):
                found.append(_kept(task, mode, ratios(group, mode, auto), promised=False))
    return [asdict(kept) for kept in found if kept is not None]


def overheads(outcomes: Sequence[Outcome], modes: Sequence[str]) -> dict[str, float]:
    """Each drafter's share of its decode time for drafting and bookkeeping, a neural drafter's passes included."""
    shares = {mode: overhead(outcome.answers[mode] for outcome in outcomes) for mode in modes if not is_peer(mode)}
    return {mode: share for mode, share in shares.items() if share is not None}


def is_single(mode: str, auto: str) -> bool:
    """Whether a mode is one drafter of its own: not plain, no peer, no auto, no strict answers."""
    if is_peer(mode) or split_exact(mode)[1] == "strict":
        return False
    return parse_spec(split_exact(mode)[0])[0] not in {PLAIN, "off", AUTO, parse_spec(auto)[0]}


def ratios(outcomes: Iterable[Outcome], slow: str, fast: str) -> list[float]:
    """Time of `slow` over time of `fast`, by prompt, where both have a second token."""
    found = [decode_ratio(outcome.answers[slow], outcome.answers[fast]) for outcome in outcomes]
    return [ratio for ratio in found if ratio is not None]


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def interval(values: Sequence[float], samples: int = SAMPLES, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval (percentiles) of the geometric mean; the same values give the same interval."""
    logs = np.log(values)
    drawn = np.random.default_rng(seed).integers(0, len(logs), (samples, len(logs)))
    low, high = np.exp(np.percentile(logs[drawn].mean(1), [2.5, 97.5]))
    return float(low), float(high)


def _against_best(task: Task, group: Sequence[Outcome], singles: Sequence[str], auto: str) -> Kept | None:
    """None where there are not two prompts, one to choose on and one to compare on."""
    pooled: list[float] = []
    chosen: list[str] = []
    for choosing, comparing in ((group[::2], group[1::2]), (group[1::2], group[::2])):
        timed = [mode for mode in singles if ratios(choosing, PLAIN, mode)]
        if timed and comparing:
            best = max(timed, key=lambda mode: geometric_mean(ratios(choosing, PLAIN, mode)))
            chosen.append(best)
            pooled += ratios(comparing, best, auto)
    return _kept(task, BEST, pooled, list(dict.fromkeys(chosen)))


def _kept(
    task: Task, against: str, values: Sequence[float], chosen: Sequence[str] = (), promised: bool = True
) -> Kept | None:
    if not values:
        return None
    low, high = interval(values)
    verdict = "kept" if low >= BAR else "broken" if high < BAR else "open"
    return Kept(
        *task,
        against,
        list(chosen),
        len(values),
        round(geometric_mean(values), 4),
        round(low, 4),
        round(high, 4),
        promised,
        verdict,
    )
