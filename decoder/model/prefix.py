"""Prefix: the rows of one sequence, for another sequence that begins with the same tokens.

It has the keys and values of every token but the last, and the outputs that the sequence's drafter read. A drafter of
the next sequence rebuilds its state from these rows, so it only sees rows of its sequence's tokens. Knows tokens,
caches and rows; knows no sessions and no drafter.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache

FEATURES = -1
"""The key of the final norm's output, among layer numbers."""


class KeptRows:
    """Collects the output rows of a sequence's passes, by layer.

    Args:
        reused: layer -> [m, D], rows of the sequence's first m tokens, from a reused prefix.
    """

    def __init__(self, reused: dict[int, torch.Tensor] | None = None) -> None:
        self._rows = {layer: [rows] for layer, rows in (reused or {}).items()}

    def prompt(self, outputs: ForwardOutputs) -> None:
        """Set the rows of the whole prompt; they replace those of a reused prefix."""
        self._rows |= {layer: [rows] for layer, rows in _layers(outputs).items()}

    def step(self, outputs: ForwardOutputs, count: int) -> None:
        """Add the first `count` rows of a verified step."""
        for layer, rows in _layers(outputs).items():
            if layer in self._rows:
                self._rows[layer].append(rows[:count].clone())  # not a view, which would hold the whole pass

    def joined(self) -> dict[int, torch.Tensor]:
        """layer -> [n, D]. A layer that some passes did not keep has its first rows only."""
        return {layer: torch.cat(parts) for layer, parts in self._rows.items()}


class Prefix:
    """Rows of the first n tokens of a text.

    Attributes:
        ids: int32 [n], the tokens.
        cache: their keys and values; its length is n.
        states: layer (or FEATURES) -> [m, D], outputs of the first m <= n tokens.
        used: whether a sequence uses the cache, so that no other sequence may.
    """

    __slots__ = ("cache", "ids", "states", "used")

    def __init__(self, ids: Ids[int] | NDArray[np.int32], cache: KVCache, states: dict[int, torch.Tensor]) -> None:
        self.ids: NDArray[np.int32] = np.asarray(ids, dtype=np.int32)
        if len(self.ids) != cache.length:
            raise ValueError(f"the cache has {cache.length} rows for {len(self.ids)} tokens; give one row per token")
        self.cache = cache
        self.states = states
        self.used = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, used or not."""
        return self.cache.nbytes + self.ids.nbytes + sum(rows.nbytes for rows in self.states.values())

    def common(self, ids: Ids[int] | NDArray[np.int32]) -> int:
        """The length of the longest common prefix with a text."""
        size = min(len(ids), len(self))
        differing = np.flatnonzero(self.ids[:size] != np.asarray(ids[:size], dtype=np.int32))
        return int(differing[0]) if len(differing) else size

    def usable(self, ids: Ids[int], required_outputs: RequiredOutputs) -> int:
        """The number of first tokens of a text that need no pass: common tokens with all rows, without the last token.

        Args:
            ids: the text.
            required_outputs: those of the sequence's drafter.
        """
        size = min(self.common(ids), len(ids) - 1)
        layers = [*required_outputs.hidden, *([FEATURES] if required_outputs.features else [])]
        return min([size, *(len(self.states[layer]) if layer in self.states else 0 for layer in layers)])

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens and drop the others.

        Raises:
            ValueError: a sequence uses the cache.
        """
        if self.used:
            raise ValueError("this prefix is in use by another sequence; give each sequence its own copy")
        self.cache.truncate(length)
        self.ids = self.ids[:length]
        self.states = {layer: rows[:length] for layer, rows in self.states.items()}

    def copy(self, length: int) -> Prefix:
        """A copy of the first `length` tokens, with its own buffers.

        Raises:
            ValueError: `length` is below 1 or above the prefix's length.
        """
        if not 0 < length <= len(self):
            raise ValueError(f"length must be 1 to {len(self)}, the prefix's length; got {length}")
        states = {layer: rows[:length].clone() for layer, rows in self.states.items()}
        return Prefix(self.ids[:length].copy(), self.cache.copy(length), states)

    def outputs(self, required_outputs: RequiredOutputs) -> ForwardOutputs:
        """The required outputs of these tokens as after a prefill, without logits and queries."""
        hidden = {layer: self.states[layer] for layer in required_outputs.hidden}
        return ForwardOutputs(torch.empty(0), hidden, {}, self.states[FEATURES] if required_outputs.features else None)


def _layers(outputs: ForwardOutputs) -> dict[int, torch.Tensor]:
    """Hidden states and features by layer, FEATURES included."""
    features = {} if outputs.features is None else {FEATURES: outputs.features}
    return {**outputs.hidden, **features}
