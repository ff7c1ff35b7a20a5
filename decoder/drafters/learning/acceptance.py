"""Acceptance: the probability that a drafted token is accepted, learned from every candidate along the true tokens,
verified or not.

Knows a node's features as one number (its `feature_bucket`); knows no tokens, no trees and no model.

An estimate is a chain of averages, from coarse to fine: by matched length and rank; also by proposal type; by
agreement; by recent acceptance in this answer; by the kind of text that the copy comes from. Each finer average weighs
as much as it has observations, and the coarser average fills the rest (hierarchical shrinkage), so a bucket without
observations still has an estimate. The `calibrator` corrects the estimate by what the model shows of the token.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from itertools import accumulate
from operator import mul
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.learning.calibrator import Calibrator
from decoder.drafters.learning.eos_prior import EosPrior

Floats = NDArray[np.float64]

PROPOSAL_TYPES = ("match", "near", "resume", "substitute", "delete", "neural", "guess", "head", "masks", "recycled")
"""Who proposes a token.

* match: an n-gram match; near: an n-gram match shortly after the last copied run.
* resume, substitute, delete: the last copied run continues after a rejected token, which was inserted, replaced one
  token, or replaced two.
* neural, head, masks, recycled: a draft model, an EAGLE head, SDSAT masks, tables of next tokens; "matched
  length" is their confidence
  (`draft_probabilities.confidence_bucket`).
* guess: the last logits (LogitSpec); "matched length" is the token's rank among them."""
KINDS = ("prompt", "passage", "conversation", "answer", "edited", "unread", "store")
"""The text that a copy comes from: other prompt text, passages, earlier answers of the conversation, the answer itself,
the text under edit or a prediction, retrieved passages that are not in the prompt, other conversations' answers."""
AGREEMENTS = ("alone", "few agree", "all agree", "split, single", "split, minority", "split, majority")
RANKS = 4
RECENT_LEVELS = 4
LENGTHS = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 32, 64)
"""Least matched length of each length bucket."""
LONGEST = LENGTHS[-1]

PRIOR = 8.0
"""Observations that the coarser estimate weighs as much as."""
START = 0.3
MOST = 4096.0
"""Most observations of an average; older ones fade, so that the estimate follows the answers it serves."""

LENGTH_BUCKET = [max(i for i, low in enumerate(LENGTHS) if low <= n) for n in range(LONGEST + 1)]
_AGREEMENT_STRIDE = len(KINDS)
_TYPE_STRIDE = _AGREEMENT_STRIDE * len(AGREEMENTS)
_RANK_STRIDE = _TYPE_STRIDE * len(PROPOSAL_TYPES)
_RECENT_STRIDE = _RANK_STRIDE * RANKS
_LENGTH_STRIDE = _RECENT_STRIDE * RECENT_LEVELS
BUCKETS = _LENGTH_STRIDE * len(LENGTHS)
_SIZES = (len(PROPOSAL_TYPES), len(AGREEMENTS), RECENT_LEVELS)
"""Values of the features that the second to fourth averages add."""
FIRST_CELLS = tuple(accumulate((0, *accumulate(_SIZES, mul, initial=len(LENGTHS) * RANKS))))
"""The first cell of each level of averages, from coarse to fine; the finest has a cell for each bucket."""
_CELLS = FIRST_CELLS[-1] + BUCKETS
_FORMAT = f"acceptance 3, {BUCKETS} cells"
_FORMATS = {_FORMAT: len(PROPOSAL_TYPES), "acceptance 3, 72576 cells": 9}
"""Formats that can be read, and how many proposal types they know: the first ones."""

SHIPPED = Path(__file__).parent / "tables" / "acceptance.json"
"""Learned from replayed answers to training prompts (`benchmarks/learn_acceptance.py`), none of them a benchmark's."""
_SHIPPED_WEIGHT = 500.0
"""Most observations of an average of the shipped table, so that a domain soon has its own estimates."""
MOST_TABLES = 64
"""Tables that stay in memory."""


def feature_bucket(
    length: int, proposal_type: int, kind: int, agreement: int, rank: int, recent_acceptance: int
) -> int:
    """The bucket of a node.

    Args:
        length: tokens that matched before it, including its ancestors in the tree.
        proposal_type, kind, agreement: indices into PROPOSAL_TYPES, KINDS, AGREEMENTS.
        rank: among its siblings, from 0.
        recent_acceptance: 0 to 3, the share of the answer's last tokens that came from drafts.
    """
    return (
        LENGTH_BUCKET[length if length < LONGEST else LONGEST] * _LENGTH_STRIDE
        + recent_acceptance * _RECENT_STRIDE
        + (rank if rank < RANKS else RANKS - 1) * _RANK_STRIDE
        + proposal_type * _TYPE_STRIDE
        + agreement * _AGREEMENT_STRIDE
        + kind
    )


@functools.cache
def _levels(bucket: int) -> tuple[int, int, int, int, int]:
    """Cells of a bucket's averages from coarse to fine."""
    length, recent_acceptance = divmod(bucket // _RECENT_STRIDE, RECENT_LEVELS)
    rough = length * RANKS + bucket // _RANK_STRIDE % RANKS
    with_type = rough * len(PROPOSAL_TYPES) + bucket // _TYPE_STRIDE % len(PROPOSAL_TYPES)
    with_agreement = with_type * len(AGREEMENTS) + bucket // _AGREEMENT_STRIDE % len(AGREEMENTS)
    with_recent = with_agreement * RECENT_LEVELS + recent_acceptance
    _, second, third, fourth, finest = FIRST_CELLS
    return rough, second + with_type, third + with_agreement, fourth + with_recent, finest + bucket


def _key(cell: int) -> int:
    """A cell's number in files: BUCKETS times its level, plus the bucket whose finer features are 0."""
    level = bisect_right(FIRST_CELLS, cell) - 1
    rest, key = cell - FIRST_CELLS[level], level * BUCKETS
    if level == len(FIRST_CELLS) - 1:
        return key + rest
    for size, stride in reversed(
        list(zip(_SIZES, (_TYPE_STRIDE, _AGREEMENT_STRIDE, _RECENT_STRIDE), strict=True))[:level]
    ):
        rest, value = divmod(rest, size)
        key += value * stride
    return key + rest // RANKS * _LENGTH_STRIDE + rest % RANKS * _RANK_STRIDE


class AcceptanceTable:
    """Estimates of acceptance by feature bucket. Not safe for several threads; an engine uses its own from one.

    Attributes:
        accepted, observed: float64 [cells], the counts of each average.
        estimates: float64 [BUCKETS], each bucket's estimate until its averages change, or 0.
    """

    def __init__(self) -> None:
        self.calibrator = Calibrator()
        self.eos_prior = EosPrior()
        counts = np.zeros(_CELLS), np.zeros(_CELLS), np.zeros(BUCKETS)  # pages take memory once they are written
        self.accepted, self.observed, self.estimates = (values.data.cast("B").cast("d") for values in counts)
        self._counts = counts

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The memory of all counts, for compiled code: accepted, observed and estimates, and the calibrator's."""
        return *self._counts, self.calibrator.weights, self.calibrator.similarities

    def probability(self, bucket: int) -> float:
        """Estimated probability that a node of this bucket is accepted, given that its parent is; in (0, 1)."""
        estimate: float = self.estimates[bucket]
        if estimate:
            return estimate
        estimate = START
        for cell in _levels(bucket):
            estimate = (self.accepted[cell] + PRIOR * estimate) / (self.observed[cell] + PRIOR)
        self.estimates[bucket] = estimate
        return estimate

    def chance(
        self,
        bucket: int,
        at: int,
        similarity: float | None,
        logit_margin: float | None,
        draft_probability: float | None = None,
    ) -> float:
        """The estimate, corrected by the model's evidence for the token; arguments as `Calibrator.chance`."""
        return self.calibrator.chance(self.probability(bucket), at, similarity, logit_margin, draft_probability)

    def learn(
        self,
        bucket: int,
        accepted: bool,
        at: int = 0,
        similarity: float | None = None,
        logit_margin: float | None = None,
        draft_probability: float | None = None,
    ) -> None:
        """Count a node whose parent was accepted; other arguments as `chance`."""
        self.calibrator.learn(self.probability(bucket), at, similarity, logit_margin, draft_probability, accepted)
        accepted_counts, observed = self.accepted, self.observed
        for cell in _levels(bucket):
            if observed[cell] >= MOST:
                accepted_counts[cell] *= 0.5
                observed[cell] *= 0.5
            accepted_counts[cell] += accepted
            observed[cell] += 1.0
        self.estimates[bucket] = 0.0

    def copy(self) -> AcceptanceTable:
        table = AcceptanceTable()
        table.accepted[:], table.observed[:] = self.accepted, self.observed
        table.calibrator = self.calibrator.copy()
        table.eos_prior = self.eos_prior.copy()
        return table

    def faded(self, most: float) -> AcceptanceTable:
        """The same estimates with at most `most` observations each, so that new ones weigh more."""
        table = self.copy()
        accepted, observed = np.asarray(table.accepted), np.asarray(table.observed)
        often = observed > most
        accepted[often] *= most / observed[often]
        observed[often] = most
        return table

    def take_type(self, proposal_type: int, other: AcceptanceTable) -> None:
        """Take over the averages of one proposal type, but for the coarsest ones, which all types share."""
        for cell in range(FIRST_CELLS[1], _CELLS):
            if _key(cell) % BUCKETS // _TYPE_STRIDE % len(PROPOSAL_TYPES) == proposal_type:
                self.accepted[cell], self.observed[cell] = other.accepted[cell], other.observed[cell]
        self._counts[2][:] = 0.0  # the estimates

    def save(self, path: Path) -> None:
        """Write the table atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        cells = np.flatnonzero(np.asarray(self.observed)).tolist()
        rows = sorted([_key(cell), round(self.accepted[cell], 2), round(self.observed[cell], 2)] for cell in cells)
        value = {
            "format": _FORMAT,
            "calibrator": self.calibrator.state(),
            "endings": self.eos_prior.state(),
            "rows": rows,
        }
        draft.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> AcceptanceTable:
        """A table that `save` wrote. Raises ValueError if the file holds none, or one of another version."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["format"] not in _FORMATS:
                raise ValueError(f"{path} is a table of another version; delete it, it is learned anew")
            table = cls._of(value["rows"], _FORMATS[value["format"]])
            table.calibrator = Calibrator.of(value["calibrator"])
            table.eos_prior = EosPrior.of(value.get("endings", []))
            return table
        except (LookupError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} holds no acceptance table ({error}); delete it, it is learned anew") from None

    @classmethod
    def _of(cls, rows: Iterable[tuple[int, float, float]], types: int) -> AcceptanceTable:
        table, rank_stride = cls(), _TYPE_STRIDE * types
        for key, hits, seen in rows:
            if not 0 <= hits <= seen < math.inf:
                raise KeyError(f"row {key}")
            level, bucket = divmod(int(key), BUCKETS // len(PROPOSAL_TYPES) * types)
            bucket = bucket // rank_stride * _RANK_STRIDE + bucket % rank_stride
            cell = _levels(bucket)[level]
            table.accepted[cell], table.observed[cell] = hits, seen
        return table


class AcceptanceTables:
    """One table per domain (a collection, say). Each starts as a copy of the shipped one.

    The least recently used tables are evicted, except those in use, and written to the folder if there is one.

    Args:
        folder: keeps the tables between runs; None keeps them in memory only.
        most: tables that stay in memory, not counting those in use.
    """

    def __init__(self, folder: Path | None = None, most: int = MOST_TABLES) -> None:
        self._folder = folder
        self._most = most
        self._tables: OrderedDict[str, AcceptanceTable] = OrderedDict()

    def of(self, domain: str) -> AcceptanceTable:
        """The table of a domain. A file that cannot be read is replaced."""
        table = self._tables.get(domain)
        if table is None:
            table = self._read(domain) or shipped().faded(_SHIPPED_WEIGHT)
            self.set(domain, table)
        self._tables.move_to_end(domain)
        return table

    def set(self, domain: str, table: AcceptanceTable) -> None:
        """Replace a domain's table."""
        self._tables[domain] = table
        if len(self._tables) > self._most:
            self._evict()

    def save(self) -> None:
        """Write all tables to the folder, if there is one."""
        if self._folder is not None:
            for domain, table in self._tables.items():
                table.save(self._file(domain))

    def _evict(self) -> None:
        """Drop the least recently used tables that nobody else references."""
        in_use: WeakValueDictionary[str, AcceptanceTable] = WeakValueDictionary(self._tables)
        for domain in list(self._tables)[: len(self._tables) - self._most]:
            if self._folder is not None:
                with contextlib.suppress(OSError):  # it is learned anew
                    self._tables[domain].save(self._file(domain))
            del self._tables[domain]
            if domain in in_use:  # an answer still learns from it
                self._tables[domain] = in_use[domain]

    def _read(self, domain: str) -> AcceptanceTable | None:
        if self._folder is None or not self._file(domain).is_file():
            return None
        try:
            return AcceptanceTable.load(self._file(domain))
        except (OSError, ValueError):
            return None

    def _file(self, domain: str) -> Path:
        assert self._folder is not None
        return self._folder / f"acceptance-{hashlib.sha256(domain.encode()).hexdigest()[:16]}.json"


@functools.cache
def shipped() -> AcceptanceTable:
    """The table that every domain starts from. Do not change it."""
    return AcceptanceTable.load(SHIPPED)
