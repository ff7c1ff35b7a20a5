"""Mean and deviation of the scores that all chunks of a collection have for a question. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Moments:
    """Of `count` scores: their sum and the sum of their squares. Those of two collections add up."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, scores: NDArray[np.floating], count: int | None = None) -> Moments:
        """Those of some scores; with `count`, of as many, of which the others are 0."""
        wide = scores.astype(np.float64)
        return cls(len(wide) if count is None else count, float(wide.sum()), float((wide * wide).sum()))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def scaled(self, count: int) -> Moments:
        """The same mean and deviation as of `count` scores."""
        factor = count / self.count if self.count else 0.0
        return Moments(count, self.total * factor, self.squares * factor)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 where all scores are equal."""
        if not self.count:
            return 0.0
        variance = self.squares / self.count - self.mean**2
        return math.sqrt(variance) if variance > 1e-12 else 0.0

    def standings(self, scores: Mapping[Key, float], keys: Iterable[Key]) -> dict[Key, float]:
        """How many standard deviations the scores of `keys` are above the mean; 0 where all scores are equal."""
        mean, deviation = self.mean, self.deviation
        return {key: (scores[key] - mean) / deviation if deviation else 0.0 for key in keys}
