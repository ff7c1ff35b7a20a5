"""CostCurve: how long a target pass takes, by rows, cached tokens and sequences. Measured, then refined while serving.

Knows times and sizes; knows no model and no tokens. Shapes matter more than seconds: a shared machine is now twice as
fast and now half, so what is learned of the shape is what is left once the machine's present pace is taken out.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Rows of a pass at which a curve has a point; between them it is a line, behind the last it goes on as one."""
Bucket = tuple[int, int]
"""(power of 4 that the cached tokens reach, power of 2 that the sequences reach)."""

_WEIGHT = 0.05
"""Of a new observation against what is known."""
_OUTLIER = 3.0
_PATIENCE = 8
"""Outliers in a row after which they are believed."""
_SETTLING = 12
"""Passes of another number of sequences, or another bucket, that are taken for a change of pace alone: what such passes
cost more or less, all of them do, and says nothing of their shape."""


class CostCurve:
    """Seconds of a pass.

    Args:
        points: bucket -> seconds at each of ROWS. Without any, a pass over 64 rows is taken to cost 1.5 of one row's.
    """

    def __init__(self, points: Mapping[Bucket, list[float]] | None = None) -> None:
        self._points: dict[Bucket, list[float]] = {bucket: list(values) for bucket, values in (points or {}).items()}
        self._smooth: dict[Bucket, list[float]] = {}
        self._costs: dict[tuple[Bucket, int, int], list[float]] = {}
        self._least: dict[tuple[Bucket, int, int], float] = {}
        self._pace = 0.0
        """Log of how much slower than the curve the machine is just now."""
        self._outliers = 0
        self._last: tuple[Bucket, int] | None = None
        self._settling = 0

    def costs(self, tokens: int, sequences: int, most: int) -> list[float]:
        """Seconds of a pass with 0, 1, ..., `most` draft nodes.

        Args:
            tokens: cached tokens of all sequences.
            sequences: each adds one row, its root.
            most: draft nodes of all sequences together.
        """
        key = (bucket_of(tokens, sequences), sequences, most)
        costs = self._costs.get(key)
        if costs is None:
            curve = self._curve(key[0])
            costs = self._costs[key] = [_at(curve, sequences + nodes) for nodes in range(most + 1)]
        return costs

    def least_value(self, tokens: int, sequences: int, most: int) -> float:
        """A node of less value than this cannot be worth its row, however many others are drafted.

        Plain decoding's rate is always to be had, so a row is paid for by its share of it at the curve's flattest.
        """
        key = (bucket_of(tokens, sequences), sequences, most)
        least = self._least.get(key)
        if least is None:
            costs = self.costs(tokens, sequences, most)
            steps = [(later - earlier) for earlier, later in pairwise(costs)]
            least = self._least[key] = sequences * min(steps, default=0.0) / costs[0]
        return least

    def observe(self, rows: int, tokens: int, sequences: int, seconds: float) -> None:
        """Learn from a pass that was timed."""
        bucket = bucket_of(tokens, sequences)
        values = self._points.setdefault(bucket, list(self._curve(bucket)))
        expected = _at(values, rows)  # not the curve that never falls: what lies under it would sink for ever
        residual = math.log(max(seconds, 1e-9) / expected) - self._pace
        if abs(residual) > math.log(_OUTLIER) and self._outliers < _PATIENCE:
            self._outliers += 1
            return
        self._outliers = 0
        if self._last != (bucket, sequences):
            self._settling = 0 if self._last is None else _SETTLING
            self._last = bucket, sequences
        if self._settling:
            self._settling -= 1
            self._pace += 0.4 * residual
            return
        self._pace += 0.2 * residual
        residual *= _WEIGHT
        high = min(bisect_left(ROWS, rows), len(ROWS) - 1)
        low = max(high - 1, 0) if ROWS[high] != rows else high
        share = 1.0 if low == high else min(max((rows - ROWS[low]) / (ROWS[high] - ROWS[low]), 0.0), 1.0)
        values[high] *= math.exp(share * residual)
        if low != high:
            values[low] *= math.exp((1.0 - share) * residual)
        self._smooth.pop(bucket, None)
        self._costs.clear()
        self._least.clear()

    def normalised(self, seconds: float) -> float:
        """What took that long just now, in the curve's own seconds: less what the machine is slower at present."""
        return seconds * math.exp(-self._pace)

    def set(self, bucket: Bucket, measured: Mapping[int, float]) -> None:
        """Take measured seconds by rows; the other points lie on lines between them."""
        rows = sorted(measured)
        values = []
        for point in ROWS:
            high = min(bisect_left(rows, point), len(rows) - 1)
            low = max(high - 1, 0) if rows[high] >= point else high
            if low == high and len(rows) > 1 and high == len(rows) - 1:
                low = high - 1
            span = rows[high] - rows[low]
            slope = max((measured[rows[high]] - measured[rows[low]]) / span, 0.0) if span else 0.0
            values.append(max(measured[rows[low]] + slope * (point - rows[low]), 1e-9))
        self._points[bucket] = values
        self._smooth.clear()
        self._costs.clear()
        self._least.clear()

    def _curve(self, bucket: Bucket) -> list[float]:
        """A bucket's points, never falling; those of the nearest bucket that has some where it has none."""
        curve = self._smooth.get(bucket)
        if curve is None:
            known = self._points.get(bucket)
            if known is None and self._points:
                near = min(self._points, key=lambda b: (abs(b[1] - bucket[1]), abs(b[0] - bucket[0]), b))
                known = self._points[near]
            curve, highest = [], 0.0
            for value in known or [0.02 * (1 + 0.5 * (rows - 1) / 64) for rows in ROWS]:
                highest = max(highest, value)
                curve.append(highest)
            self._smooth[bucket] = curve
        return curve

    def to_json(self) -> dict[str, object]:
        return {f"{a},{b}": [round(v, 7) for v in values] for (a, b), values in sorted(self._points.items())}

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        draft.write_text(json.dumps({"rows": ROWS, "seconds": self.to_json()}) + "\n", encoding="utf-8")
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> CostCurve:
        """A curve that `save` wrote. Raises ValueError where the file holds none."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if tuple(value["rows"]) != ROWS:
                raise KeyError("rows of another version")
            points = {}
            for name, seconds in value["seconds"].items():
                tokens, sequences = name.split(",")
                if len(seconds) != len(ROWS) or not all(0 < s < math.inf for s in seconds):
                    raise KeyError(name)
                points[int(tokens), int(sequences)] = [float(s) for s in seconds]
            return cls(points)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} holds no cost curve ({error}); delete it, it is measured anew") from None


class AssumedCurve(CostCurve):
    """What passes of another machine are taken to cost, whatever they take here: a line through one and 64 rows.

    What a neural drafter takes here says nothing of there: it is taken to cost its rows alone.

    Args:
        one: seconds over one row.
        cost_of_64: of a pass over 64 rows, in passes over one.
    """

    def __init__(self, one: float, cost_of_64: float) -> None:
        super().__init__()
        self.set((0, 0), {1: one, 64: one * cost_of_64})

    def observe(self, rows: int, tokens: int, sequences: int, seconds: float) -> None:
        """Nothing is learned."""

    def normalised(self, seconds: float) -> float:
        return 0.0


def bucket_of(tokens: int, sequences: int) -> Bucket:
    """Cached tokens by powers of 4 from 256 on, sequences by powers of 2."""
    return max((tokens >> 8).bit_length() + 1, 0) // 2, sequences.bit_length() - 1


def _at(curve: list[float], rows: int) -> float:
    high = min(bisect_left(ROWS, rows), len(ROWS) - 1)
    if ROWS[high] == rows or high == 0:
        return curve[high]
    low = high - 1
    return curve[low] + (curve[high] - curve[low]) * (rows - ROWS[low]) / (ROWS[high] - ROWS[low])
