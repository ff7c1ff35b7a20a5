"""CostCurve: the time of a target pass by rows, cached tokens and sequences. Measured, then refined while serving.

Knows times and sizes; knows no model and no tokens. The shape of the curve matters more than its seconds, since the
speed of a shared machine varies by a factor of two or more. So the curve tracks the machine's current pace, and learns
its shape from what the pace does not explain.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)
"""Rows of a pass at which a curve has a point. It is linear between the points and after the last one."""
Bucket = tuple[int, int]
"""Size class of a pass: (of its cached tokens, by powers of 4; of its sequences, by powers of 2). See `bucket_of`."""

_DRAFTS = (1, 4, 16)
"""Nodes a sequence of the drafts that `drafts_pay` weighs."""
_LIKELY = 0.9
"""The value of each of their nodes."""
_WORTH = 1.1
"""What they must at least multiply the speed by: a draft takes time, too, and not every answer has a likely one."""
_WEIGHT = 0.05
"""Weight of a new observation."""
_OUTLIER = 3.0
"""Factor by which an outlier differs from what is expected."""
_PATIENCE = 8
"""Outliers in a row that are ignored; later ones count."""
_SETTLING = 12
"""Passes after a change of bucket or number of sequences that adjust the pace alone: such a change makes passes of all
sizes slower or faster."""


class CostCurve:
    """Seconds of a pass.

    Args:
        points: bucket -> seconds at each of ROWS. By default a pass over 64 rows costs 1.5 passes over one row.
    """

    def __init__(self, points: Mapping[Bucket, list[float]] | None = None) -> None:
        self._points: dict[Bucket, list[float]] = {bucket: list(values) for bucket, values in (points or {}).items()}
        self._monotone: dict[Bucket, list[float]] = {}
        self._costs: dict[tuple[Bucket, int, int], list[float]] = {}
        self._least: dict[tuple[Bucket, int, int], float] = {}
        self._pay: dict[tuple[Bucket, int], bool] = {}
        self._pace = 0.0
        """Log of the factor by which the machine is slower than the curve at present."""
        self._outliers = 0
        """Outliers in a row so far."""
        self._last: tuple[Bucket, int] | None = None
        """Bucket and sequences of the last pass."""
        self._settling = 0
        """Passes still to come that adjust the pace alone."""

    def costs(self, tokens: int, sequences: int, most: int) -> list[float]:
        """Seconds of a pass with 0, 1, ..., `most` draft nodes.

        Args:
            tokens: cached tokens of all sequences.
            sequences: each adds one row, its root.
            most: largest number of draft nodes of all sequences together.
        """
        key = (bucket_of(tokens, sequences), sequences, most)
        costs = self._costs.get(key)
        if costs is None:
            curve = self._curve(key[0])
            costs = self._costs[key] = [_at(curve, sequences + nodes) for nodes in range(most + 1)]
        return costs

    def least_value(self, tokens: int, sequences: int, most: int) -> float:
        """The value below which a node cannot be worth its row, however many others are drafted.

        It is the number of tokens that plain decoding yields in the time of a row where the curve is flattest.
        Arguments as `costs`.
        """
        key = (bucket_of(tokens, sequences), sequences, most)
        least = self._least.get(key)
        if least is None:
            costs = self.costs(tokens, sequences, most)
            increments = [(later - earlier) for earlier, later in pairwise(costs)]
            least = self._least[key] = sequences * min(increments, default=0.0) / costs[0]
        return least

    def drafts_pay(self, tokens: int, sequences: int) -> bool:
        """Whether a draft of likely tokens gains more than it takes to make: not where every row costs the same.

        Arguments as `costs`.
        """
        key = bucket_of(tokens, sequences), sequences
        pay = self._pay.get(key)
        if pay is None:
            curve = self._curve(key[0])
            needed = _WORTH * sequences / _at(curve, sequences)
            pay = self._pay[key] = any(
                sequences * (1 + _LIKELY * nodes) / _at(curve, sequences * (1 + nodes)) > needed for nodes in _DRAFTS
            )
        return pay

    def observe(self, rows: int, tokens: int, sequences: int, seconds: float) -> None:
        """Learn from the time of a pass.

        Args:
            rows: rows of the pass.
            tokens, sequences: as in `costs`.
            seconds: its time.
        """
        bucket = bucket_of(tokens, sequences)
        values = self._points.setdefault(bucket, list(self._curve(bucket)))
        expected = _at(values, rows)  # not the monotone curve: points below it would sink for ever
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
        self._monotone.pop(bucket, None)
        self._costs.clear()
        self._least.clear()
        self._pay.clear()

    def normalised(self, seconds: float) -> float:
        """A time measured just now, in the curve's seconds: corrected for the machine's current pace."""
        return seconds * math.exp(-self._pace)

    def set(self, bucket: Bucket, measured: Mapping[int, float]) -> None:
        """Set a bucket's points from measured rows -> seconds, with linear interpolation between them."""
        rows = sorted(measured)
        values = []
        for point in ROWS:
            number = min(max(bisect_left(rows, point), 1), len(rows) - 1)
            low, high = rows[max(number - 1, 0)], rows[number]
            slope = max((measured[high] - measured[low]) / (high - low), 0.0) if high > low else 0.0
            values.append(max(measured[low] + slope * (max(point, rows[0]) - low), 1e-9))
        self._points[bucket] = values
        self._monotone.clear()
        self._costs.clear()
        self._least.clear()
        self._pay.clear()

    def _curve(self, bucket: Bucket) -> list[float]:
        """A bucket's points, made monotone; those of the nearest bucket if it has no points."""
        curve = self._monotone.get(bucket)
        if curve is None:
            points = self._points.get(bucket)
            if points is None and self._points:
                nearest = min(self._points, key=lambda b: (abs(b[1] - bucket[1]), abs(b[0] - bucket[0]), b))
                points = self._points[nearest]
            curve = list(accumulate(points or [0.02 * (1 + 0.5 * (rows - 1) / 64) for rows in ROWS], max))
            self._monotone[bucket] = curve
        return curve

    def to_json(self) -> dict[str, object]:
        """Bucket, as two numbers with a comma -> seconds at each of ROWS."""
        return {f"{a},{b}": [round(v, 7) for v in values] for (a, b), values in sorted(self._points.items())}

    def save(self, path: Path) -> None:
        """Replace the file at `path`, atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.write_text(json.dumps({"rows": ROWS, "seconds": self.to_json()}) + "\n", encoding="utf-8")
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> CostCurve:
        """A curve that `save` wrote.

        Raises:
            ValueError: the file has no such curve.
        """
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
            raise ValueError(f"{path} is not a cost curve ({error}); delete it to measure a new one") from None


class AssumedCurve(CostCurve):
    """The assumed costs of another machine: a line through one and 64 rows, whatever passes take here.

    Times measured here do not apply there, so a neural drafter is assumed to cost only its rows.

    Args:
        one: seconds of a pass over one row.
        cost_of_64: cost of a pass over 64 rows, in passes over one row.
    """

    def __init__(self, one: float, cost_of_64: float) -> None:
        super().__init__()
        self.set((0, 0), {1: one, 64: one * cost_of_64})

    def observe(self, rows: int, tokens: int, sequences: int, seconds: float) -> None:
        """Ignore the time."""

    def normalised(self, seconds: float) -> float:
        """0: times measured here do not apply."""
        return 0.0


def bucket_of(tokens: int, sequences: int) -> Bucket:
    """The bucket of a pass: cached tokens by powers of 4 from 256 on, sequences by powers of 2."""
    return max((tokens >> 8).bit_length() + 1, 0) // 2, sequences.bit_length() - 1


def _at(curve: list[float], rows: int) -> float:
    """A curve's value at any number of rows."""
    high = min(bisect_left(ROWS, rows), len(ROWS) - 1)
    if ROWS[high] == rows or high == 0:
        return curve[high]
    low = high - 1
    return curve[low] + (curve[high] - curve[low]) * (rows - ROWS[low]) / (ROWS[high] - ROWS[low])
