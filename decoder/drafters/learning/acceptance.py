"""Acceptance: how likely a drafted token is right, learned from every candidate whose turn came, verified or not.

Knows a node's features as one number (its `feature_bucket`); knows no tokens, no trees and no model.

A probability is a chain of averages, from coarse to fine: matched length and rank alone; with the proposal type; with
the agreement; with recent acceptance in this answer; with what kind of text the copy comes from. Each finer average
counts for as much as it has seen, and the coarser one stands in for the rest, so a bucket that was never seen still has
an estimate. What the model shows of a token turns the estimate into its chance (`calibrator`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakValueDictionary

from decoder.drafters.learning.calibrator import Calibrator
from decoder.drafters.learning.eos_prior import EosPrior

PROPOSAL_TYPES = ("match", "near", "resume", "substitute", "delete", "neural", "guess", "head", "masks")
"""How a token was found: an n-gram match; a match shortly behind the last copied run; a guess that the last copied run
goes on behind a rejected token, which was inserted before the token at the cursor, or stands for it, or for more; a
draft model, a head or masks, whose "matched length" is their confidence (`draft_probabilities`); a guess by the last
logits, whose "matched length" is its rank among them."""
KINDS = ("prompt", "passage", "conversation", "answer", "edited", "unread", "store")
"""What a copy is taken from: other prompt text, passages, earlier answers of the conversation, the answer itself, the
text under edit or a prediction, retrieved passages that are not in the prompt, other conversations' answers."""
AGREEMENTS = ("alone", "few agree", "all agree", "split, single", "split, minority", "split, majority")
RANKS = 4
RECENT_LEVELS = 4
LENGTHS = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 32, 64)
"""Matched lengths from which on a bucket counts."""
LONGEST = LENGTHS[-1]

_PRIOR = 8.0
"""Observations that the coarser estimate counts for."""
_START = 0.3
_MOST = 4096.0
"""Observations a bucket remembers; older ones fade, so that an estimate follows what it serves."""

_LENGTH_BUCKET = [max(i for i, low in enumerate(LENGTHS) if low <= n) for n in range(LONGEST + 1)]
_AGREEMENT_STRIDE = len(KINDS)
_TYPE_STRIDE = _AGREEMENT_STRIDE * len(AGREEMENTS)
_RANK_STRIDE = _TYPE_STRIDE * len(PROPOSAL_TYPES)
_RECENT_STRIDE = _RANK_STRIDE * RANKS
_LENGTH_STRIDE = _RECENT_STRIDE * RECENT_LEVELS
BUCKETS = _LENGTH_STRIDE * len(LENGTHS)
_FORMAT = f"acceptance 3, {BUCKETS} cells"

SHIPPED = Path(__file__).parent / "tables" / "acceptance.json"
"""Learned by replaying answers to training prompts (`benchmarks/learn_acceptance.py`); no benchmark prompt is among
them."""
_SHIPPED_WEIGHT = 500.0
"""Observations that an average of the shipped table counts for at most, so that a domain soon goes its own way."""


MOST_TABLES = 64
"""Domains whose tables stay in memory."""


def feature_bucket(
    length: int, proposal_type: int, kind: int, agreement: int, rank: int, recent_acceptance: int
) -> int:
    """The bucket of a node.

    Args:
        length: tokens that matched before it, those above it in the tree included.
        proposal_type, kind, agreement: indices into LANES, KINDS, AGREEMENTS.
        rank: place among its siblings, from 0.
        recent_acceptance: 0 to 3, how much of the answer's last tokens came from drafts.
    """
    return (
        _LENGTH_BUCKET[length if length < LONGEST else LONGEST] * _LENGTH_STRIDE
        + recent_acceptance * _RECENT_STRIDE
        + (rank if rank < RANKS else RANKS - 1) * _RANK_STRIDE
        + proposal_type * _TYPE_STRIDE
        + agreement * _AGREEMENT_STRIDE
        + kind
    )


@functools.cache
def _levels(bucket: int) -> tuple[int, int, int, int, int]:
    """Keys of a bucket's averages from coarse to fine; keys of different levels differ."""
    kind = bucket % len(KINDS)
    agreement = bucket // _AGREEMENT_STRIDE % len(AGREEMENTS)
    proposal_type = bucket // _TYPE_STRIDE % len(PROPOSAL_TYPES)
    recent_acceptance = bucket // _RECENT_STRIDE % RECENT_LEVELS
    rough = (
        bucket
        - kind
        - agreement * _AGREEMENT_STRIDE
        - proposal_type * _TYPE_STRIDE
        - recent_acceptance * _RECENT_STRIDE
    )
    with_type = rough + proposal_type * _TYPE_STRIDE
    with_agreement = with_type + agreement * _AGREEMENT_STRIDE
    with_recent = with_agreement + recent_acceptance * _RECENT_STRIDE
    return rough, BUCKETS + with_type, 2 * BUCKETS + with_agreement, 3 * BUCKETS + with_recent, 4 * BUCKETS + bucket


class AcceptanceTable:
    """Estimates of acceptance by feature bucket. Not safe for several threads; an engine uses its own from one."""

    def __init__(self) -> None:
        self.calibrator = Calibrator()
        self.eos_prior = EosPrior()
        self._seen: dict[int, list[float]] = {}  # level key -> [accepted, observed]
        self._known: dict[int, float] = {}  # bucket -> estimate, until something new is learned of it

    def probability(self, bucket: int) -> float:
        """Estimated chance that a node of this bucket is accepted, given that its parent is; in (0, 1)."""
        known = self._known.get(bucket)
        if known is not None:
            return known
        estimate = _START
        for key in _levels(bucket):
            counts = self._seen.get(key)
            if counts is not None:
                estimate = (counts[0] + _PRIOR * estimate) / (counts[1] + _PRIOR)
        self._known[bucket] = estimate
        return estimate

    def chance(
        self,
        bucket: int,
        at: int,
        similarity: float | None,
        logit_margin: float | None,
        draft_probability: float | None = None,
    ) -> float:
        """The estimate, corrected by what the model shows of the token; arguments as `Calibrator.chance`."""
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
        """Count a node whose parent was accepted; arguments as `chance`."""
        self.calibrator.learn(self.probability(bucket), at, similarity, logit_margin, draft_probability, accepted)
        for key in _levels(bucket):
            counts = self._seen.setdefault(key, [0.0, 0.0])
            if counts[1] >= _MOST:
                counts[0] *= 0.5
                counts[1] *= 0.5
            counts[0] += accepted
            counts[1] += 1.0
        self._known.pop(bucket, None)

    def copy(self) -> AcceptanceTable:
        table = AcceptanceTable()
        table._seen = {key: list(counts) for key, counts in self._seen.items()}
        table.calibrator = self.calibrator.copy()
        table.eos_prior = self.eos_prior.copy()
        return table

    def faded(self, most: float) -> AcceptanceTable:
        """The same estimates resting on at most `most` observations each, so that new ones weigh more."""
        table = self.copy()
        for counts in table._seen.values():
            if counts[1] > most:
                counts[0] *= most / counts[1]
                counts[1] = most
        return table

    def save(self, path: Path) -> None:
        """Write the table, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        rows = [[key, round(hits, 2), round(seen, 2)] for key, (hits, seen) in sorted(self._seen.items())]
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
        """A table that `save` wrote. Raises ValueError where the file holds none, or one of another version."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["format"] != _FORMAT:
                raise ValueError(f"{path} is of another version")
            table = cls._of(value["rows"])
            table.calibrator = Calibrator.of(value["calibrator"])
            table.eos_prior = EosPrior.of(value.get("endings", []))
            return table
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} holds no acceptance table ({error}); delete it, it is learned anew") from None

    @classmethod
    def _of(cls, rows: Iterable[tuple[int, float, float]]) -> AcceptanceTable:
        table = cls()
        for key, hits, seen in rows:
            if not 0 <= hits <= seen < math.inf:
                raise KeyError(f"row {key}")
            table._seen[int(key)] = [float(hits), float(seen)]
        return table


class AcceptanceTables:
    """One table per domain (a collection, say), each beginning as the shipped one.

    The least recently used leave memory once nobody holds them; what they learned is written where there is a folder.

    Args:
        folder: where tables are kept between runs; None keeps them in memory only.
        most: tables that stay in memory, those in use aside.
    """

    def __init__(self, folder: Path | None = None, most: int = MOST_TABLES) -> None:
        self._folder = folder
        self._most = most
        self._tables: OrderedDict[str, AcceptanceTable] = OrderedDict()

    def of(self, domain: str) -> AcceptanceTable:
        """The table of a domain; a file that cannot be read is learned anew."""
        table = self._tables.get(domain)
        if table is None:
            table = self._read(domain) or shipped().faded(_SHIPPED_WEIGHT)
            self.set(domain, table)
        self._tables.move_to_end(domain)
        return table

    def set(self, domain: str, table: AcceptanceTable) -> None:
        """Let a domain begin with another table."""
        self._tables[domain] = table
        if len(self._tables) > self._most:
            self._evict()

    def save(self) -> None:
        """Keep what was learned, where there is a folder."""
        if self._folder is not None:
            for domain, table in self._tables.items():
                table.save(self._file(domain))

    def _evict(self) -> None:
        """Let those go that were used longest ago and that nobody else holds."""
        held: WeakValueDictionary[str, AcceptanceTable] = WeakValueDictionary(self._tables)
        for domain in list(self._tables)[: len(self._tables) - self._most]:
            if self._folder is not None:
                with contextlib.suppress(OSError):  # it is learned anew
                    self._tables[domain].save(self._file(domain))
            del self._tables[domain]
            if domain in held:  # by an answer that learns
                self._tables[domain] = held[domain]

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
    """The table that every domain begins with; not to be changed."""
    return AcceptanceTable.load(SHIPPED)
