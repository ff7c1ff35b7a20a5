"""The progress of a training run, and a line about it every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoder.training.eagle.features import FeatureStore
    from decoder.training.eagle.trainer import Trainer

_LINE_SECONDS = 10.0


class Limit:
    """The end of a run, in steps or minutes, resumed parts included."""

    def __init__(self, minutes: float | None, steps: int | None) -> None:
        self._minutes = minutes
        self._steps = steps or 1000

    def progress(self, trainer: Trainer) -> float:
        """From 0 to 1."""
        done = trainer.step / self._steps if self._minutes is None else trainer.seconds / (60 * self._minutes)
        return min(done, 1.0)

    def reached(self, trainer: Trainer) -> bool:
        return self.progress(trainer) >= 1.0


class Progress:
    """Running averages of loss and right tokens by level; reports them with speed and remaining time."""

    def __init__(self, trainer: Trainer, store: FeatureStore, limit: Limit, say: Callable[[str], None]) -> None:
        self._trainer, self._store, self._limit, self._say = trainer, store, limit, say
        self._started = self._reported = time.perf_counter()
        self._feature_seconds, self._positions = store.seconds, trainer.positions
        self._first = limit.progress(trainer)
        self.loss = 0.0
        self.right: list[float] = []

    def add(self, loss: float, right: list[float]) -> None:
        """Add a step, and report if the last report is old enough."""
        weight = 0.1 if len(right) == len(self.right) else 1.0
        self.loss += weight * (loss - self.loss)
        if weight < 1.0:
            right = [old + weight * (new - old) for old, new in zip(self.right, right, strict=True)]
        self.right = right
        trainer, store, now = self._trainer, self._store, time.perf_counter()
        if now - self._reported < _LINE_SECONDS:
            return
        done = self._limit.progress(trainer)
        busy = now - self._reported - (store.seconds - self._feature_seconds)  # without the target's passes
        speed = (trainer.positions - self._positions) / max(busy, 1e-9)
        minutes = (1 - done) * (now - self._started) / max(done - self._first, 1e-9) / 60
        shares = " ".join(f".{round(100 * share):02d}" for share in self.right)
        self._say(
            f"step {trainer.step}, {100 * done:.1f} %: loss {self.loss:.3f}, right {shares}, {speed:.0f} positions/s, "
            f"features {store.computed / max(store.seconds, 1e-9):.0f} tokens/s, {minutes:.0f} min left"
        )
        self._reported, self._positions, self._feature_seconds = now, trainer.positions, store.seconds
