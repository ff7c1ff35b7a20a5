"""How far a training run is, and a line about it now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoder.training.eagle.features import FeatureStore
    from decoder.training.eagle.trainer import Trainer

_SAY_S = 10.0


class Limit:
    """When a run is over, by steps or by minutes, all its parts together."""

    def __init__(self, minutes: float | None, steps: int | None) -> None:
        self._minutes = minutes
        self._steps = steps or 1000

    def progress(self, trainer: Trainer) -> float:
        done = trainer.step / self._steps if self._minutes is None else trainer.seconds / (60 * self._minutes)
        return min(done, 1.0)

    def reached(self, trainer: Trainer) -> bool:
        return self.progress(trainer) >= 1.0


class Progress:
    """A line now and then: loss, right tokens by level, speed, time left."""

    def __init__(self, trainer: Trainer, store: FeatureStore, say: Callable[[str], None]) -> None:
        self._trainer, self._store, self._say = trainer, store, say
        self._begun = self._told = time.perf_counter()
        self._busy, self._positions, self._start_positions = store.seconds, trainer.positions, trainer.positions
        self._first_progress: float | None = None
        self.loss = 0.0
        self.right: list[float] = []

    def tell(self, loss: float, right: list[float], limit: Limit) -> None:
        weight = 0.1 if len(right) == len(self.right) else 1.0
        self.loss += weight * (loss - self.loss)
        self.right = [old + weight * (new - old) for old, new in zip(self.right or right, right, strict=False)]
        self.right = self.right if len(self.right) == len(right) else right
        now, done = time.perf_counter(), limit.progress(self._trainer)
        if self._first_progress is None:
            self._first_progress = done
        if now - self._told < _SAY_S:
            return
        busy = now - self._told - (self._store.seconds - self._busy)  # without the target's passes
        speed = (self._trainer.positions - self._positions) / max(busy, 1e-9)
        gone = done - self._first_progress
        left = f"{(1 - done) * (now - self._begun) / gone / 60:.0f} min left" if gone > 0.01 else "just begun"
        shares = " ".join(f".{round(100 * share):02d}" for share in self.right)
        self._say(
            f"step {self._trainer.step}, {100 * done:.1f} %: loss {self.loss:.3f}, right {shares}, "
            f"{speed:.0f} positions/s, features {self._store.computed / max(self._store.seconds, 1e-9):.0f} tokens/s, "
            f"{left}"
        )
        self._told, self._positions, self._busy = now, self._trainer.positions, self._store.seconds
