"""TokenIndex: where did these last tokens occur before? A suffix index over tagged token segments.

Knows token ids and segment tags; knows no model and no drafter.

Tokens that are there at the start (prompt, passages) go into *frozen* blocks: per n-gram size one sorted array of
`hash << 24 | end position`, so that all occurrences of an n-gram are one contiguous, position-ordered range found by
binary search, whatever the size of the index. Tokens generated one by one go into *fresh* dictionaries of position
lists. Candidates are held against the tokens themselves, so a hash collision costs a candidate and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ORDERS = (1, 2, 3, 4, 6, 10)
"""n-gram sizes that are indexed. A match of any length is found from the largest order that fits in it."""
MAX_CANDIDATES = 64
"""Most candidates a lookup examines; the latest of the longest order come first."""
_POSITION_BITS = 24
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_WORD = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15
_MIX = 0xD6E8FEB86659FD93
_FORMAT = b"tokidx1\0"


@dataclass(frozen=True, slots=True)
class Match:
    """`length` tokens ending just before `position` equal the end of the suffix; copying starts at `position`."""

    length: int
    position: int
    segment: int
    """Number of the segment that holds `position`, in the order segments were added."""


class TokenIndex:
    """Suffix index over segments of tokens, at most 2**24 tokens in all.

    A segment is a tag on a run of tokens; matches and copies run across segment borders, as the model reads them.
    """

    def __init__(self) -> None:
        self._tokens = np.empty(1024, np.int32)
        self._length = 0
        self._frozen_length = 0
        self._frozen: dict[int, _SortedKeys] = {}
        self._fresh: dict[int, dict[tuple[int, ...], list[int]]] = {n: {} for n in ORDERS}
        self._segment_starts: list[int] = []

    # -- building ---------------------------------------------------------------------------------------------

    @classmethod
    def build(cls, segments: Sequence[Sequence[int] | NDArray[np.int32]]) -> TokenIndex:
        """Index whole segments at once (sorted blocks; at least a million tokens a second)."""
        index = cls()
        parts = [np.asarray(ids, np.int32) for ids in segments]
        for ids in parts:
            index._segment_starts.append(index._length)
            index._append(ids)
        index._freeze()
        return index

    def add_segment(self, ids: Sequence[int] = ()) -> int:
        """Start a new segment, optionally with its first tokens; returns its number."""
        self._segment_starts.append(self._length)
        self.extend(ids)
        return len(self._segment_starts) - 1

    def extend(self, ids: Sequence[int]) -> None:
        """Append tokens to the last segment (a first one is started where there is none)."""
        if not self._segment_starts:
            self._segment_starts.append(0)
        if len(ids) > 512:
            self._append(np.asarray(ids, np.int32))
            self._freeze()
            return
        for token in ids:
            self._append(np.asarray([token], np.int32))
            end = self._length
            recent = tuple(self._tokens[max(0, end - ORDERS[-1]) : end].tolist())
            for n in ORDERS:
                if n <= len(recent):
                    self._fresh[n].setdefault(recent[-n:], []).append(end)

    def _append(self, ids: NDArray[np.int32]) -> None:
        needed = self._length + len(ids)
        if needed > _POSITION_MASK:
            raise ValueError(f"a token index holds at most {_POSITION_MASK} tokens, not {needed}")
        if needed > len(self._tokens):
            grown = np.empty(max(needed, 2 * len(self._tokens)), np.int32)
            grown[: self._length] = self._tokens[: self._length]
            self._tokens = grown
        self._tokens[self._length : needed] = ids
        self._length = needed

    def _freeze(self) -> None:
        tokens = self.tokens
        self._frozen = {n: _SortedKeys(tokens, n) for n in ORDERS if n <= len(tokens)}
        self._fresh = {n: {} for n in ORDERS}
        self._frozen_length = self._length

    # -- reading ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens, int32 [n], a view."""
        return self._tokens[: self._length]

    def segment_of(self, position: int) -> tuple[int, int]:
        """(segment number, token offset within it) of an absolute position."""
        segment = bisect_right(self._segment_starts, position) - 1
        return segment, position - self._segment_starts[segment]

    def positions(self, token: int) -> NDArray[np.int64]:
        """Every position that holds `token`, ascending."""
        ends = self._ends((token,), self._length or 1)
        positions: NDArray[np.int64] = ends[self.tokens[ends - 1] == token] - 1
        return positions

    def first(self, ngram: Sequence[int], before: int | None = None) -> int | None:
        """Where the earliest occurrence of an n-gram of an indexed size ends, None if it has none.

        The end is the position a copy would start from; it is at most `before` where that is given. Raises ValueError
        for n-grams of a size that is not indexed.
        """
        ngram = tuple(ngram)
        if len(ngram) not in ORDERS:
            raise ValueError(f"n-grams of {ORDERS} tokens are indexed, not {len(ngram)}")
        limit = self._length if before is None else before
        frozen = self._frozen.get(len(ngram))
        if frozen is not None:
            for end in frozen.earliest(ngram):
                if end > limit:
                    return None
                if self._holds(ngram, end):
                    return end
        fresh = self._fresh[len(ngram)].get(ngram)
        return fresh[0] if fresh is not None and fresh[0] <= limit else None

    def matches(self, suffix: Sequence[int], k: int, max_length: int = 10, min_length: int = 1) -> list[Match]:
        """The best earlier occurrences of the end of `suffix`: longest first, equal lengths latest first.

        Args:
            suffix: the last tokens, at least `max_length` of them where there are as many.
            k: most matches to return.
            max_length: longer matches count as this long.
            min_length: shorter matches are left out.

        Returns:
            at most k matches, none of them at the very end of the index (it has nothing to copy). At most
            MAX_CANDIDATES occurrences are examined, the latest ones of the longest indexed n-gram first.
        """
        recent = tuple(int(t) for t in suffix[-max_length:])
        levels: list[tuple[int, NDArray[np.int64]]] = []  # (order, end positions ascending), shortest order first
        for n in ORDERS:
            if n > len(recent):
                break
            ends = self._ends(recent[-n:], MAX_CANDIDATES + 1)
            if len(ends) and ends[-1] == self._length:
                ends = ends[:-1]  # the suffix itself: nothing follows it
            if not len(ends):
                break
            levels.append((n, ends))
        found: dict[int, int] = {}  # end position -> match length
        examined = 0
        for n, ends in reversed(levels):
            new = [end for end in ends[::-1].tolist() if end not in found][: MAX_CANDIDATES - examined]
            examined += len(new)
            found.update(
                (end, length)
                for end, length in zip(new, self._lengths(recent, new), strict=True)
                if length >= max(n, min_length)
            )
            # Every match of at least n tokens is among these, so k of them settle it.
            if len(found) >= k or examined >= MAX_CANDIDATES or n <= min_length:
                break
        best = sorted(found.items(), key=lambda item: (-item[1], -item[0]))[:k]
        return [Match(length, end, self.segment_of(end)[0]) for end, length in best]

    def _ends(self, ngram: tuple[int, ...], latest: int) -> NDArray[np.int64]:
        """End positions of an n-gram, ascending, at most the `latest` ones; not yet held against the tokens."""
        fresh = self._fresh[len(ngram)].get(ngram, ())[-latest:]
        frozen = self._frozen.get(len(ngram))
        if frozen is None or len(fresh) == latest:
            return np.asarray(fresh, np.int64)
        ends = frozen.ends(ngram, latest - len(fresh))
        return np.concatenate([ends, np.asarray(fresh, np.int64)]) if fresh else ends

    def _lengths(self, recent: tuple[int, ...], ends: list[int]) -> list[int]:
        """How many tokens before each end equal the end of `recent`."""
        if not ends:
            return []
        size = len(recent)
        backwards = np.arange(1, size + 1)
        at = np.asarray(ends)[:, None] - backwards  # [candidates, size]
        equal = (self._tokens[np.maximum(at, 0)] == np.asarray(recent[::-1], np.int32)) & (at >= 0)
        lengths: list[int] = np.cumprod(equal, axis=1).sum(axis=1).tolist()
        return lengths

    def _holds(self, ngram: tuple[int, ...], end: int) -> bool:
        return bool(np.array_equal(self._tokens[end - len(ngram) : end], ngram))

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Tokens and segment borders, 4 bytes a token; the sorted blocks are rebuilt faster than they travel."""
        header = np.asarray([len(self._segment_starts), self._length], np.int32)
        starts = np.asarray(self._segment_starts, np.int32)
        return _FORMAT + header.tobytes() + starts.tobytes() + self.tokens.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenIndex:
        """The index that `to_bytes` wrote. Raises ValueError for anything else."""
        if data[:8] != _FORMAT or len(data) < 16:
            raise ValueError("these bytes are not a token index; rebuild it from its tokens")
        segments, length = np.frombuffer(data, np.int32, 2, 8).tolist()
        if segments < 0 or length < 0 or len(data) != 16 + 4 * (segments + length):
            raise ValueError("these bytes are a damaged token index; rebuild it from its tokens")
        index = cls()
        index._segment_starts = np.frombuffer(data, np.int32, segments, 16).tolist()
        index._append(np.frombuffer(data, np.int32, length, 16 + 4 * segments))
        index._freeze()
        return index


class _SortedKeys:
    """All n-grams of one size of a token array: sorted `hash << 24 | end position`, uint64 [tokens - n + 1]."""

    __slots__ = ("_keys",)

    def __init__(self, tokens: NDArray[np.int32], n: int) -> None:
        count = len(tokens) - n + 1
        words = tokens.astype(np.uint64)
        hashes = np.zeros(count, np.uint64)
        for i in range(n):
            hashes = hashes * np.uint64(_BASE) + (words[i : i + count] + np.uint64(1))
        hashes *= np.uint64(_MIX)
        hashes ^= hashes >> np.uint64(32)
        hashes *= np.uint64(_MIX)
        ends = np.arange(n, n + count, dtype=np.uint64)
        self._keys = np.sort((hashes & ~np.uint64(_POSITION_MASK)) | ends)

    def _range(self, ngram: tuple[int, ...]) -> tuple[int, int]:
        value = 0
        for token in ngram:
            value = (value * _BASE + token + 1) & _WORD
        value = value * _MIX & _WORD
        value ^= value >> 32
        value = value * _MIX & _WORD & ~_POSITION_MASK
        low, high = np.searchsorted(self._keys, np.asarray([value, value | _POSITION_MASK], np.uint64))
        return int(low), int(high)

    def ends(self, ngram: tuple[int, ...], latest: int) -> NDArray[np.int64]:
        low, high = self._range(ngram)
        return (self._keys[max(low, high - latest) : high] & np.uint64(_POSITION_MASK)).astype(np.int64)

    def earliest(self, ngram: tuple[int, ...]) -> list[int]:
        low, high = self._range(ngram)
        first = self._keys[low : min(high, low + MAX_CANDIDATES)] & np.uint64(_POSITION_MASK)
        return [int(end) for end in first]
