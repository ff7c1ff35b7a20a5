"""TokenIndex: finds earlier occurrences of the last tokens. A suffix index over tagged token segments.

Knows token ids and segment tags; knows no model and no drafter.

Tokens known at the start (prompt, passages) are *frozen* into one sorted array of (n-gram size, hash, end position).
All occurrences of an n-gram are one contiguous range in order of position, and one binary search finds the ranges of
all sizes. Tokens generated one by one go into *fresh* dictionaries of position lists. Candidates are compared with the
tokens themselves, so a hash collision costs one candidate and never gives a wrong match.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ORDERS = (1, 2, 3, 4, 6, 10)
"""The indexed n-gram sizes. A match of any length is looked up by the largest size that fits in it."""
MAX_CANDIDATES = 64
"""Most candidates that a lookup examines: those of the longest n-gram first, the latest first."""
_ONE_BY_ONE = 16
"""Up to this many candidates are compared one by one; more are compared in one array operation."""
_POSITION_BITS = 24
POSITION_MASK = (1 << _POSITION_BITS) - 1
ORDER_SHIFT = 61
HASH_MASK = ((1 << ORDER_SHIFT) - 1) & ~POSITION_MASK
_WORD = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15
POWERS = [pow(_BASE, size, 1 << 64) for size in range(ORDERS[-1])]
MIX = 0xD6E8FEB86659FD93
_FORMAT = b"tokidx1\0"
_NO_KEYS = np.empty(0, np.uint64)


class Match(NamedTuple):
    """`length` tokens ending just before `position` equal the end of the suffix; copying starts at `position`."""

    length: int
    position: int
    segment: int
    """Number of the segment that contains `position`, in the order in which segments were added."""


class TokenIndex:
    """Suffix index over segments of tokens, fewer than 2**24 tokens in all.

    A segment is a tag on a run of tokens. Matches and copies cross segment borders, since the model reads one text.

    Attributes:
        frozen_length: the tokens before it are frozen.
    """

    def __init__(self) -> None:
        self._tokens = np.empty(1024, np.int32)
        self._length = 0
        self._frozen: _FrozenBlock | None = None
        self.frozen_length = 0
        self._fresh: dict[int, dict[tuple[int, ...], list[int]]] = {n: {} for n in ORDERS}
        self._segment_starts: list[int] = []

    # -- building ---------------------------------------------------------------------------------------------

    @classmethod
    def build(cls, segments: Sequence[Sequence[int] | NDArray[np.int32]]) -> TokenIndex:
        """Index whole segments at once, as frozen tokens: at least a million tokens a second.

        Raises:
            ValueError: the segments have 2**24 tokens or more.
        """
        index = cls()
        for ids in segments:
            index._segment_starts.append(index._length)
            index._append(np.asarray(ids, np.int32))
        index._freeze()
        return index

    def add_segment(self, ids: Sequence[int] = ()) -> int:
        """Start a new segment, optionally with its first tokens, and return its number."""
        self._segment_starts.append(self._length)
        self.extend(ids)
        return len(self._segment_starts) - 1

    def extend(self, ids: Sequence[int]) -> None:
        """Append tokens to the last segment; start one if there is none."""
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
        if needed > POSITION_MASK:
            raise ValueError(f"a token index holds at most {POSITION_MASK} tokens, not {needed}")
        if needed > len(self._tokens):
            grown = np.empty(max(needed, 2 * len(self._tokens)), np.int32)
            grown[: self._length] = self._tokens[: self._length]
            self._tokens = grown
        self._tokens[self._length : needed] = ids
        self._length = needed

    def _freeze(self) -> None:
        self._frozen = _FrozenBlock(self.tokens)
        self.frozen_length = self._length
        self._fresh = {n: {} for n in ORDERS}

    # -- reading ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens: int32 [n], a view."""
        return self._tokens[: self._length]

    @property
    def buffer(self) -> NDArray[np.int32]:
        """The memory that begins with all tokens, for compiled code."""
        return self._tokens

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The frozen tokens' sorted array."""
        return _NO_KEYS if self._frozen is None else self._frozen.keys

    def segment_of(self, position: int) -> tuple[int, int]:
        """(segment number, token offset in the segment) of an absolute position."""
        segment = bisect_right(self._segment_starts, position) - 1
        return segment, position - self._segment_starts[segment]

    def positions(self, token: int) -> NDArray[np.int64]:
        """Every position of `token`: int64 [n], ascending."""
        return np.flatnonzero(self.tokens == token)

    def first(self, ngram: Sequence[int], before: int | None = None) -> int | None:
        """The end position of an n-gram's earliest occurrence, from which a copy starts; None if it does not occur.

        Args:
            ngram: as many tokens as one of ORDERS.
            before: the largest end position to accept; None accepts all.

        Raises:
            ValueError: n-grams of this size are not indexed.
        """
        ngram = tuple(ngram)
        if len(ngram) not in ORDERS:
            raise ValueError(f"the index has n-grams of {ORDERS} tokens, not of {len(ngram)}")
        limit = self._length if before is None else before
        if self._frozen is not None:
            for end in self._frozen.earliest(ngram):
                if self._agreement(ngram, end) == len(ngram):
                    return end if end <= limit else None
        fresh = self._fresh[len(ngram)].get(ngram)
        return fresh[0] if fresh is not None and fresh[0] <= limit else None

    def matches(self, suffix: Sequence[int], k: int, max_length: int = 10, min_length: int = 1) -> list[Match]:
        """The best earlier occurrences of the end of `suffix`: longest first, the latest first among equal lengths.

        Args:
            suffix: the last tokens, at least `max_length` of them if the text has as many.
            k: most matches to return.
            max_length: longer matches count as this long.
            min_length: the shortest match to return.

        Returns:
            at most k matches. The end of the index is not a match, since nothing follows it. At most MAX_CANDIDATES
            occurrences are examined, those of the longest indexed n-gram first, the latest first.
        """
        return self.matches_of([suffix], k, max_length, min_length)[0]

    def matches_of(
        self, suffixes: Sequence[Sequence[int]], k: int, max_length: int = 10, min_length: int = 1
    ) -> list[list[Match]]:
        """`matches` of several suffixes of one length, in one search."""
        recents = [tuple(int(t) for t in suffix[-max_length:]) for suffix in suffixes]
        orders = [n for n in ORDERS if recents and n <= len(recents[0])]
        ranges = [{}] * len(recents) if self._frozen is None else self._frozen.ranges(recents, orders)
        return [self._matches(*of, orders, k, min_length) for of in zip(recents, ranges, strict=True)]

    def _matches(
        self, recent: tuple[int, ...], ranges: dict[int, tuple[int, int]], orders: list[int], k: int, min_length: int
    ) -> list[Match]:
        lengths: dict[int, int] = {}  # end position -> match length
        examined = 0
        longest = len(recent)
        for n in reversed(orders):
            # Earlier rounds found every match of more than `longest` tokens, so n may already be the whole length.
            exact = n == longest
            ends = self._latest(n, recent[-n:], ranges.get(n, (0, 0)), MAX_CANDIDATES - examined)
            if exact:
                for end in ends:
                    if examined == MAX_CANDIDATES:
                        break
                    if end not in lengths:
                        examined += 1
                        if n >= min_length and self._agreement(recent, end) >= n:
                            lengths[end] = n
                            if len(lengths) >= k:
                                break
            else:
                new = [end for end in ends if end not in lengths][: MAX_CANDIDATES - examined]
                examined += len(new)
                agreements = (
                    self._agreements(recent, new)
                    if len(new) > _ONE_BY_ONE
                    else [self._agreement(recent, e) for e in new]
                )
                for end, length in zip(new, agreements, strict=True):
                    if length >= n and length >= min_length:
                        lengths[end] = length
            # Every match of at least n tokens is among these, so k of them are enough.
            if len(lengths) >= k or examined >= MAX_CANDIDATES or n <= min_length:
                break
            longest = n - 1
        best = sorted(lengths.items(), key=lambda item: (-item[1], -item[0]))[:k]
        return [Match(length, end, self.segment_of(end)[0]) for end, length in best]

    def _latest(self, n: int, ngram: tuple[int, ...], frozen: tuple[int, int], most: int) -> list[int]:
        """End positions of an n-gram, latest first, without the end of the index: nothing follows it."""
        fresh = self._fresh[n].get(ngram)
        ends = fresh[: -most - 2 : -1] if fresh else []
        if frozen[0] != frozen[1] and self._frozen is not None and len(ends) <= most:
            ends += self._frozen.latest(frozen, most - len(ends) + 1)
        return ends[1:] if ends and ends[0] == self._length else ends

    def _agreement(self, recent: tuple[int, ...], end: int) -> int:
        """The number of tokens before `end` that equal the end of `recent`."""
        before = self._tokens[max(0, end - len(recent)) : end].tolist()
        length = 0
        for last, earlier in zip(reversed(recent), reversed(before), strict=False):
            if last != earlier:
                break
            length += 1
        return length

    def _agreements(self, recent: tuple[int, ...], ends: list[int]) -> list[int]:
        """`_agreement` for many end positions at once."""
        positions = np.array(ends)[:, None] - np.arange(1, len(recent) + 1)  # [candidates, size]
        differ = self._tokens[positions] != np.array(recent[::-1], np.int32)  # negative positions wrap around
        differ |= positions < 0
        lengths: list[int] = np.where(differ.any(1), differ.argmax(1), len(recent)).tolist()
        return lengths

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Tokens and segment borders, 4 bytes per token. Rebuilding the sorted array is faster than sending it."""
        header = np.asarray([len(self._segment_starts), self._length], np.int32)
        starts = np.asarray(self._segment_starts, np.int32)
        return _FORMAT + header.tobytes() + starts.tobytes() + self.tokens.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenIndex:
        """The index that `to_bytes` wrote.

        Raises:
            ValueError: the bytes are no token index, or a damaged one.
        """
        if data[:8] != _FORMAT or len(data) < 16:
            raise ValueError("these bytes are not a token index; rebuild it from its tokens")
        segments, length = np.frombuffer(data, np.int32, 2, 8).tolist()
        if segments < 0 or length < 0 or len(data) != 16 + 4 * (segments + length):
            raise ValueError("this token index is damaged; rebuild it from its tokens")
        index = cls()
        index._segment_starts = np.frombuffer(data, np.int32, segments, 16).tolist()
        index._append(np.frombuffer(data, np.int32, length, 16 + 4 * segments))
        index._freeze()
        return index


class _FrozenBlock:
    """All n-grams of a token array, of every indexed size, in one sorted array.

    A key is uint64: index into ORDERS (3 bits), hash (37 bits), end position (24 bits); 8 bytes per token and size.
    """

    __slots__ = ("keys",)

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        words = tokens.astype(np.uint64) + np.uint64(1)
        blocks = []
        for number, n in enumerate(ORDERS):
            count = max(len(tokens) - n + 1, 0)
            hashes = np.zeros(count, np.uint64)
            for i in range(n if count else 0):
                hashes = hashes * np.uint64(_BASE) + words[i : i + count]
            hashes *= np.uint64(MIX)
            hashes ^= hashes >> np.uint64(32)
            hashes *= np.uint64(MIX)
            ends = np.arange(n, n + count, dtype=np.uint64)
            key = (hashes & np.uint64(HASH_MASK)) | ends | np.uint64(number << ORDER_SHIFT)
            blocks.append(np.sort(key))
        self.keys = np.concatenate(blocks)

    def ranges(self, recents: Sequence[tuple[int, ...]], orders: Sequence[int]) -> list[dict[int, tuple[int, int]]]:
        """For each text end and each size, the range of keys of the n-gram at the end."""
        needles = []
        for recent in recents:
            value, size = 0, 0
            for number, n in enumerate(orders):
                while size < n:
                    value += (recent[-size - 1] + 1) * POWERS[size]
                    size += 1
                mixed = value * MIX & _WORD
                mixed = (mixed ^ mixed >> 32) * MIX & HASH_MASK | number << ORDER_SHIFT
                needles += [mixed, mixed | POSITION_MASK]
        bounds = iter(np.searchsorted(self.keys, np.array(needles, np.uint64)).tolist())
        return [{n: (next(bounds), next(bounds)) for n in orders} for _ in recents]

    def latest(self, bounds: tuple[int, int], most: int) -> list[int]:
        """The last end positions of a range, latest first."""
        low, high = bounds
        if low == high or most <= 0:
            return []
        ends: list[int] = (self.keys[max(low, high - most - 1) : high] & np.uint64(POSITION_MASK)).tolist()
        return ends[::-1]

    def earliest(self, ngram: tuple[int, ...]) -> list[int]:
        """The first end positions of an n-gram of an indexed size, ascending."""
        low, high = self.ranges([ngram], [n for n in ORDERS if n <= len(ngram)])[0][len(ngram)]
        first: list[int] = (self.keys[low : min(high, low + MAX_CANDIDATES)] & np.uint64(POSITION_MASK)).tolist()
        return first
