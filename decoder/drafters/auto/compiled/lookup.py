"""Lookups, compiled: `TokenIndex.matches`, `Copies.candidates`, `best_tokens` and `Guesses.candidates` over arrays.

A candidate is a row of int64: see the columns below. Its tokens are read where they are copied from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.auto import copies as copies_of
from decoder.drafters.auto import guesses as guesses_of
from decoder.drafters.learning.acceptance import KINDS
from decoder.drafts import token_index
from decoder.jit import jit
from decoder.sequence import CORPUS_OFFSET

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]
Keys = NDArray[np.uint64]
Text = tuple[Tokens, int, int, Keys]
"""An index: memory that begins with its tokens, their number, how many are frozen, and the frozen tokens' keys."""

FIRST, POSITION, LENGTH, TYPE, KIND, RANK, SIZE = range(7)
"""Columns of a candidate: its first token, then as `Candidate`, and the number of its tokens."""
COLUMNS = 7

_ORDERS = np.array(token_index.ORDERS)
_POWERS = np.array(token_index.POWERS, np.uint64)
_MIX = np.uint64(token_index.MIX)
_HASH_MASK = np.uint64(token_index.HASH_MASK)
_POSITION_MASK = np.uint64(token_index.POSITION_MASK)
_ORDER_SHIFT = np.uint64(token_index.ORDER_SHIFT)
_HALF = np.uint64(32)
_CANDIDATES = token_index.MAX_CANDIDATES
_LONGEST_ORDER = token_index.ORDERS[-1]
_BLOCK = 32
"""Tokens that a scan of the answer compares at once."""
_LOGITS = 64
"""Logits that are compared at once."""
_ANSWER = KINDS.index("answer")
_MATCH, _NEAR, _RESUME, _GUESS = copies_of.MATCH, copies_of.NEAR, copies_of.RESUME, copies_of.GUESS
_SKIPS = copies_of.NEURAL - copies_of.RESUME
_LONGEST, _NEAR_TOKENS, _NEAR_BONUS = copies_of.LONGEST_MATCH, copies_of.NEAR_TOKENS, copies_of.NEAR_BONUS
_RESUME_STRENGTH, _BEFORE_EDITED = copies_of.RESUME_STRENGTH, copies_of.BEFORE_EDITED_STRENGTH
_NO_PLACE = copies_of.NO_PLACE
_EXTENDED, _CONTINUED, _NGRAM = guesses_of.EXTENDED, guesses_of.CONTINUED, guesses_of.NGRAM

CONSTANTS = "a6c134fd79d0"
"""The digest of those that come from other files, and of its own; a test computes it (see `jit.py`)."""


@jit
def _lower_bound(keys: Keys, needle: np.uint64) -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < needle:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _agreement(tokens: Tokens, end: int, recent: Ints, most: int) -> int:
    """The number of tokens before `end` that equal the end of `recent`, at most `most`."""
    most = min(most, end)
    length, last = 0, len(recent) - 1
    while length < most and tokens[end - 1 - length] == recent[last - length]:
        length += 1
    return length


@jit
def _fresh_ends(tokens: Tokens, length: int, frozen: int, recent: Ints, orders: int, ends: Ints, counts: Ints) -> None:
    """The latest ends of the n-grams of each size behind the frozen tokens, latest first: `ends` [orders, most]."""
    last = recent[len(recent) - 1]
    most = min(len(recent), _LONGEST_ORDER)
    end = length
    while end > frozen:
        stop = max(end - _BLOCK, frozen)
        found = 0
        for at in range(stop, end):
            found += tokens[at] == last
        if found:
            for here in range(end, stop, -1):
                if tokens[here - 1] == last:
                    agreement = _agreement(tokens, here, recent, most)
                    for number in range(orders):
                        if _ORDERS[number] <= agreement and counts[number] < ends.shape[1]:
                            ends[number, counts[number]] = here
                            counts[number] += 1
        end = stop


@jit
def _matches(text: Text, recent: Ints, most: int, positions: Ints, lengths: Ints) -> int:
    """`TokenIndex.matches` of the text's end `recent` into two arrays [MAX_CANDIDATES]; returns their number."""
    tokens, length, frozen, keys = text
    size, orders = len(recent), 0
    while orders < len(_ORDERS) and _ORDERS[orders] <= size:
        orders += 1
    fresh, fresh_counts = np.empty((len(_ORDERS), _CANDIDATES + 1), np.int64), np.zeros(len(_ORDERS), np.int64)
    _fresh_ends(tokens, length, frozen, recent, orders, fresh, fresh_counts)
    low, high = np.zeros(len(_ORDERS), np.int64), np.zeros(len(_ORDERS), np.int64)
    value, hashed = np.uint64(0), 0
    for number in range(orders if len(keys) else 0):
        while hashed < _ORDERS[number]:
            value += np.uint64(recent[size - 1 - hashed] + 1) * _POWERS[hashed]
            hashed += 1
        mixed = value * _MIX
        mixed = ((mixed ^ (mixed >> _HALF)) * _MIX) & _HASH_MASK | (np.uint64(number) << _ORDER_SHIFT)
        low[number] = _lower_bound(keys, mixed)
        high[number] = _lower_bound(keys, mixed | _POSITION_MASK)

    ends = np.empty(2 * _CANDIDATES + 4, np.int64)
    found, examined, longest = 0, 0, size
    for number in range(orders - 1, -1, -1):
        n = _ORDERS[number]
        left = _CANDIDATES - examined
        count = min(fresh_counts[number], left + 1)
        ends[:count] = fresh[number, :count]
        if low[number] != high[number] and count <= left:
            first = max(low[number], high[number] - (left - count + 1) - 1)
            for at in range(high[number] - 1, first - 1, -1):
                ends[count] = np.int64(keys[at] & _POSITION_MASK)
                count += 1
        before, exact = found, n == longest
        for at in range(1 if count and ends[0] == length else 0, count):
            if examined == _CANDIDATES:
                break
            end, known = ends[at], False
            for other in range(before):
                known |= positions[other] == end
            if known:
                continue
            examined += 1
            agreement = _agreement(tokens, end, recent, size)
            if agreement >= n:
                positions[found], lengths[found] = end, n if exact else agreement
                found += 1
                if exact and found >= most:
                    break
        if found >= most or examined >= _CANDIDATES:
            break
        longest = n - 1
    for at in range(1, found):  # the longest first, the latest first among equals
        position, agreed, to = positions[at], lengths[at], at
        while to and (lengths[to - 1] < agreed or (lengths[to - 1] == agreed and positions[to - 1] < position)):
            positions[to], lengths[to] = positions[to - 1], lengths[to - 1]
            to -= 1
        positions[to], lengths[to] = position, agreed
    return min(found, most)


@jit
def copies(
    text: Text,
    segments: tuple[Ints, Ints],
    corpora: tuple[Tokens, Keys, Ints, Ints],
    cursor: int,
    before_edited: int,
    most: int,
    longest: int,
    rows: Ints,
) -> int:
    """`Copies.candidates` without similarities, into `rows`; returns their number.

    Args:
        segments: where the text's segments start, the answer included, and their kinds.
        corpora: their tokens and keys, where each starts, and their kinds; no token if there are none.
        cursor, before_edited: positions, or -1.
        most, longest: as `Copies`.
        rows: int64 [at least 2 * most + 4, COLUMNS].
    """
    tokens, length, _, _ = text
    starts, kinds = segments
    corpus, corpus_keys, corpus_starts, corpus_kinds = corpora
    recent = tokens[max(length - _LONGEST, 0) : length].astype(np.int64)
    positions, lengths = np.empty(_CANDIDATES, np.int64), np.empty(_CANDIDATES, np.int64)
    strengths = np.empty(len(rows))
    proposed, matched = 0, 0
    for part in range(2 if len(corpus) else 1):
        if part:
            frozen = corpus, len(corpus), len(corpus), corpus_keys
            found = _matches(frozen, recent, most, positions, lengths)
        else:
            found = _matches(text, recent, most, positions, lengths)
        for at in range(found):
            position = positions[at] + CORPUS_OFFSET * part
            near = cursor >= 0 and 0 <= position - cursor <= _NEAR_TOKENS
            strengths[proposed] = lengths[at] + (_NEAR_BONUS if near else 0.0)
            rows[proposed, POSITION], rows[proposed, LENGTH] = position, lengths[at]
            rows[proposed, TYPE] = _NEAR if near else _MATCH
            proposed += 1
    matched = proposed
    for skipped in range(_SKIPS + 1):
        position, strength, kind = cursor + skipped, _RESUME_STRENGTH - skipped, _RESUME + skipped
        if skipped == _SKIPS:
            position, strength, kind = before_edited, _BEFORE_EDITED, _MATCH
            if before_edited < 0:
                continue
        elif cursor < 0:
            continue
        known = False
        for at in range(matched):
            known |= rows[at, POSITION] == position
        if not known:
            strengths[proposed] = strength
            rows[proposed, POSITION], rows[proposed, LENGTH], rows[proposed, TYPE] = position, 0, kind
            proposed += 1
    kept = 0
    for at in range(proposed):
        strength = strengths[at]
        position, agreed, kind = rows[at, POSITION], rows[at, LENGTH], rows[at, TYPE]
        in_corpus = position >= CORPUS_OFFSET
        place = position - CORPUS_OFFSET if in_corpus else position
        ahead = (len(corpus) if in_corpus else length) - place
        if ahead <= 0:
            continue
        to = kept
        while to and (
            strengths[to - 1] < strength or (strengths[to - 1] == strength and rows[to - 1, POSITION] < position)
        ):
            strengths[to] = strengths[to - 1]
            rows[to] = rows[to - 1]
            to -= 1
        strengths[to] = strength
        rows[to, POSITION], rows[to, LENGTH], rows[to, TYPE], rows[to, RANK] = position, agreed, kind, 0
        if in_corpus:
            rows[to, FIRST], rows[to, SIZE] = corpus[place], min(ahead, longest)
            rows[to, KIND] = corpus_kinds[np.searchsorted(corpus_starts, place, side="right") - 1]
        else:  # a copy that reaches the end of the text continues with itself
            rows[to, FIRST], rows[to, SIZE] = tokens[place], longest
            rows[to, KIND] = kinds[np.searchsorted(starts, place, side="right") - 1]
        kept += 1
    return kept


@jit
def best(logits: NDArray[np.float32], count: int) -> Ints:
    """`best_tokens` of a row of logits: int64 [min(count, V)]."""
    count = min(count, len(logits))
    tokens, values = np.empty(count, np.int64), np.empty(count, logits.dtype)
    kept = 0
    for block in range((len(logits) + _LOGITS - 1) // _LOGITS):
        start = block * _LOGITS
        stop = min(start + _LOGITS, len(logits))
        if kept == count and stop - start == _LOGITS:
            lowest, better = values[count - 1], np.int32(0)
            for at in range(_LOGITS):  # a fixed number of them, so that vector instructions compare them
                better += np.int32(logits[start + at] > lowest)
            if not better:
                continue
        for at in range(start, stop):
            value = logits[at]
            if kept == count and value <= values[count - 1]:
                continue
            to = kept if kept < count else count - 1
            while to and values[to - 1] < value:
                values[to], tokens[to] = values[to - 1], tokens[to - 1]
                to -= 1
            values[to], tokens[to] = value, at
            kept = min(kept + 1, count)
    return tokens


@jit
def guesses(text: Text, ranked: Ints, worth: int, rows: Ints, copied: int) -> int:
    """`Guesses.candidates` into `rows` behind the `copied` first ones; returns the number of all rows.

    Args:
        ranked: the best `worth` + 1 tokens of the last logits.
        worth: guesses that are worth a row.
    """
    tokens, length, _, _ = text
    last = tokens[length - 1]
    before = tokens[max(length - _NGRAM + 1, 0) : length]
    recent = np.empty(len(before) + 1, np.int64)
    recent[:-1] = before
    positions, lengths = np.empty(_CANDIDATES, np.int64), np.empty(_CANDIDATES, np.int64)
    rank, count = 0, copied
    for token in ranked:
        if token == last or rank == worth:
            continue
        known = False
        for at in range(copied):
            known |= rows[at, FIRST] == token
        if not known:
            rows[count, FIRST], rows[count, POSITION], rows[count, LENGTH] = token, _NO_PLACE, 0
            rows[count, TYPE], rows[count, KIND], rows[count, RANK], rows[count, SIZE] = _GUESS, _ANSWER, rank, 1
            if rank < _EXTENDED:
                recent[len(recent) - 1] = token
                if _matches(text, recent, 1, positions, lengths):
                    rows[count, POSITION], rows[count, LENGTH] = positions[0] - 1, lengths[0] - 1
                    rows[count, SIZE] = 1 + min(length - positions[0], _CONTINUED)
            count += 1
        rank += 1
    return count
