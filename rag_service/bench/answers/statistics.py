"""Shares with their intervals, and AUROC. Pure functions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

Z = 1.959964
"""Standard deviations of a two-sided interval of 95 %."""
RESAMPLES = 2000


def wilson(successes: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson's score interval); (0, 1) without trials."""
    if not total:
        return 0.0, 1.0
    share = successes / total
    centre = share + Z * Z / (2 * total)
    margin = Z * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    scale = 1 + Z * Z / total
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The chance that a positive's score is above a negative's, ties counted half; None if one side is empty."""
    if not positive or not negative:
        return None
    scored = sorted([*((score, True) for score in positive), *((score, False) for score in negative)])
    total, n = 0.0, 0
    below = 0
    while n < len(scored):
        end = n
        while end < len(scored) and scored[end][0] == scored[n][0]:
            end += 1
        here = sum(is_positive for _, is_positive in scored[n:end])
        total += here * (below + (end - n - here) / 2)
        below += end - n - here
        n = end
    return total / (len(positive) * len(negative))


def auroc_interval(positive: Sequence[float], negative: Sequence[float], seed: int = 0) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of `auroc`."""
    if not positive or not negative:
        return None
    chance = random.Random(seed)
    values = sorted(
        auroc(chance.choices(positive, k=len(positive)), chance.choices(negative, k=len(negative))) or 0.0
        for _ in range(RESAMPLES // 4)
    )
    return values[int(0.025 * len(values))], values[int(0.975 * len(values))]


def paired_interval(differences: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """(mean, low, high) of paired differences; the 95 % bootstrap interval."""
    if not differences:
        return 0.0, 0.0, 0.0
    chance, size = random.Random(seed), len(differences)
    means = sorted(sum(chance.choices(differences, k=size)) / size for _ in range(RESAMPLES))
    return sum(differences) / size, means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]
