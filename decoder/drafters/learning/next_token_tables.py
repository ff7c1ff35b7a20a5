"""Tables of next tokens: what a target favours after a context of one or two tokens, over arrays. `NextTokens` owns
them.

A context of one token w is the key w, one of two tokens (u, w) the key (u + 1) * 2**32 + w. An entry holds BEST tokens
(-1 where there are fewer), the mean chance that the target gave to each, and how many rows that mean is of, at most
MOST: so later rows count more. Shipped entries are sorted by key and never change; learned ones lie in slots by a hash
of the key, and come first where both exist.

The functions are compiled where numba is installed, with the same results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from decoder.jit import jit
except ImportError:

    def jit(function: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[misc]
        """Without numba, the function itself."""
        return function


BEST = 8
"""Tokens of an entry."""
MOST = 16.0
"""Most rows that an entry's means count as."""
PAIR_PRIOR = 1.0
"""Rows of a context of two tokens from which on it counts as much as that of one token."""
SEEN_PRIOR = 0.3
"""Rows that a context of one token lacks: the chances of a token seen once are taken with care."""
TAIL = 8.0
"""Weight of all tokens but the BEST of a row, in that of the least of these: the sum over a vocabulary takes as long as
the products of a small head. On 90,000 rows of Qwen2.5-Coder-1.5B, chances so are off by .008."""
_PROBED = 8
"""Slots that may hold a key."""
_SHIFT = 1 << 32

Ids = NDArray[np.int32]
Floats = NDArray[np.float64]
Keys = NDArray[np.int64]
Entries = tuple[Keys, Ids, Floats, Floats]
"""keys [n], tokens [n, BEST], chances [n, BEST], rows [n]; the key of an empty slot is -1."""
Tree = tuple[Keys, Keys, Floats]
"""parents (-1 for the root), tokens and values [nodes]."""


@jit
def shipped_at(keys: Keys, before: int, token: int) -> int:
    """The index of a context among shipped keys, or -1; `before` is -1 for a context of one token."""
    key = (before + 1) * _SHIFT + token
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@jit
def slot_of(keys: Keys, rows: Floats, before: int, token: int) -> int:
    """The slot of a context: its own, else an empty one, else that of the fewest rows among those that may hold it."""
    key = (before + 1) * _SHIFT + token
    start = (token * 40503 + (before + 1) * 9973) % len(keys)
    fewest = start
    for step in range(_PROBED):
        slot = (start + step) % len(keys)
        if keys[slot] == key or keys[slot] == -1:
            return slot
        if rows[slot] < rows[fewest]:
            fewest = slot
    return fewest


@jit
def learn(learned: Entries, shipped: Entries, before: int, token: int, tokens: Ids, chances: Floats) -> None:
    """Add a row to the mean of a context.

    Args:
        before: the context's first token; -1 for a context of one token.
        tokens, chances: [BEST], the likeliest tokens of the row; -1 where there are fewer.
    """
    keys, ids, means, rows = learned
    key = (before + 1) * _SHIFT + token
    slot = slot_of(keys, rows, before, token)
    if keys[slot] != key:
        keys[slot] = key
        at = shipped_at(shipped[0], before, token)
        if at >= 0:
            ids[slot], means[slot], rows[slot] = shipped[1][at], shipped[2][at], shipped[3][at]
        else:
            ids[slot], means[slot], rows[slot] = -1, 0.0, 0.0
    weight = 1.0 / (min(rows[slot], MOST) + 1.0)
    rows[slot] = min(rows[slot] + 1.0, MOST)
    for place in range(BEST):
        means[slot, place] *= 1.0 - weight
    for number in range(BEST):
        if tokens[number] < 0:
            break
        least, chance = 0, weight * chances[number]
        for place in range(BEST):
            if ids[slot, place] == tokens[number]:
                means[slot, place] += chance
                chance = 0.0
                break
            if means[slot, place] < means[slot, least]:
                least = place
        if chance > means[slot, least]:
            ids[slot, least], means[slot, least] = tokens[number], chance


@jit
def learn_rows(learned: Entries, shipped: Entries, before: Keys, after: Keys, tokens: Keys, logits: Floats) -> None:
    """Learn rows of a pass, each for its context of two tokens and that of one.

    Args:
        before, after: [n], the last two tokens before what each row predicts; `before` is -1 where there is none.
        tokens, logits: [n, k], the k likeliest tokens of each row, the likeliest first; at most BEST count.
    """
    best, chances = np.full(BEST, -1, np.int32), np.zeros(BEST)
    known = min(BEST, tokens.shape[1])
    for row in range(len(tokens)):
        if not math.isfinite(logits[row, 0]):  # of a broken model
            continue
        total = 0.0
        for place in range(known):
            best[place] = tokens[row, place]
            chances[place] = math.exp(logits[row, place] - logits[row, 0])
            total += chances[place]
        if known == BEST:
            total += TAIL * chances[BEST - 1]
        for place in range(known):
            chances[place] /= total
        learn(learned, shipped, -1, after[row], best, chances)
        if before[row] >= 0:
            learn(learned, shipped, before[row], after[row], best, chances)


@jit
def children(learned: Entries, shipped: Entries, before: int, token: int, tokens: Ids, chances: Floats) -> int:
    """Write the likeliest tokens after two, the likeliest first; returns how many there are.

    Args:
        tokens, chances: [2 * BEST], written to.
    """
    count, known = 0, 0.0
    for order in range(2):
        first = before if order == 0 else -1
        key = (first + 1) * _SHIFT + token
        slot = slot_of(learned[0], learned[3], first, token)
        table, at = learned, slot
        if learned[0][slot] != key:
            table, at = shipped, shipped_at(shipped[0], first, token)
        if at < 0:
            continue
        ids, means, rows = table[1][at], table[2][at], table[3][at]
        if order == 0:
            known = share = rows / (rows + PAIR_PRIOR)
        else:
            share = (1.0 - known) * rows / (rows + SEEN_PRIOR)
        for number in range(BEST):
            if ids[number] < 0:
                continue
            place = 0
            while place < count and tokens[place] != ids[number]:
                place += 1
            if place == count:
                tokens[place], chances[place] = ids[number], 0.0
                count += 1
            chances[place] += share * means[number]
    for number in range(1, count):  # few enough for insertion
        moved, chance, place = tokens[number], chances[number], number
        while place > 0 and chances[place - 1] < chance:
            tokens[place], chances[place] = tokens[place - 1], chances[place - 1]
            place -= 1
        tokens[place], chances[place] = moved, chance
    return count


@jit
def grow(
    learned: Entries,
    shipped: Entries,
    before: int,
    token: int,
    depth: int,
    least: float,
    tree: tuple[Keys, Keys, Floats],
) -> int:
    """Draft the likeliest tokens after a text: best-first search. Returns the nodes.

    Args:
        before, token: the text's last two tokens.
        depth: most levels.
        least: value below which a node is left out.
        tree: written to, in falling order of value.
    """
    parents, tokens, values = tree
    most = len(tokens)
    below = np.empty((most + 1, 2 * BEST), np.int32)  # of each node that has children, the root first
    chances = np.empty((most + 1, 2 * BEST))
    counts, following = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
    depths = np.zeros(most + 1, np.int64)
    if depth > 0:
        counts[0] = children(learned, shipped, before, token, below[0], chances[0])
    nodes = 0
    while nodes < most:
        best, value = -1, least
        for parent in range(nodes + 1):
            if following[parent] < counts[parent]:
                reached = chances[parent, following[parent]] * (1.0 if parent == 0 else values[parent - 1])
                if reached > value:
                    best, value = parent, reached
        if best < 0:
            break
        parents[nodes], values[nodes] = best - 1, value
        tokens[nodes] = below[best, following[best]]
        following[best] += 1
        depths[nodes + 1] = depths[best] + 1
        nodes += 1
        if depths[nodes] < depth:
            last = token if best == 0 else tokens[best - 1]
            counts[nodes] = children(learned, shipped, last, tokens[nodes - 1], below[nodes], chances[nodes])
    return nodes
