"""Prefix: what a sequence leaves behind for another one that begins with the same tokens.

Keys and values of every token but the last, and the rows of artifacts that its drafter read, from the first token on.
Knows tokens, caches and rows; knows no sessions and no drafter. Whatever else a drafter keeps it makes anew from these
rows, so it never sees a row of a token that is not the sequence's.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache

FEATURES = -1
"""In the place of a layer: the final norm's output."""


class KeptRows:
    """The rows of artifacts that a sequence's passes left behind, by layer, while they come in.

    Args:
        known: layer -> [m, D], rows of the sequence's first m tokens, from a prefix that it began on.
    """

    def __init__(self, known: dict[int, torch.Tensor] | None = None) -> None:
        self._rows = {layer: [rows] for layer, rows in (known or {}).items()}

    def prompt(self, made: ForwardOutputs) -> None:
        """All rows of the prompt, in place of what was known of them."""
        for layer, rows in _layers(made).items():
            self._rows[layer] = [rows]

    def step(self, made: ForwardOutputs, count: int) -> None:
        """The first `count` rows of a verified step."""
        for layer, rows in _layers(made).items():
            if layer in self._rows:
                self._rows[layer].append(rows[:count])

    def joined(self) -> dict[int, torch.Tensor]:
        """layer -> [n, D]; of layers that not every pass kept the first rows alone."""
        return {layer: torch.cat(parts) for layer, parts in self._rows.items()}


class Prefix:
    """Rows of the first n tokens of a text.

    Attributes:
        ids: int32 [n], the tokens that the rows belong to.
        cache: their keys and values; its length is n.
        states: layer (or FEATURES) -> [m, D], artifacts of the first m <= n tokens.
        given: whether a sequence has taken the cache, so that no other one may.
    """

    __slots__ = ("cache", "given", "ids", "states")

    def __init__(self, ids: Ids[int] | NDArray[np.int32], cache: KVCache, states: dict[int, torch.Tensor]) -> None:
        self.ids: NDArray[np.int32] = np.asarray(ids, dtype=np.int32)
        if len(self.ids) != cache.length:
            raise ValueError(f"a cache of {cache.length} rows cannot belong to {len(self.ids)} tokens")
        self.cache = cache
        self.states = states
        self.given = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, used or not."""
        return self.cache.nbytes + self.ids.nbytes + sum(rows.nbytes for rows in self.states.values())

    def common(self, ids: Ids[int] | NDArray[np.int32]) -> int:
        """How many tokens a text shares with this one from its beginning on."""
        size = min(len(ids), len(self))
        differing = np.flatnonzero(self.ids[:size] != np.asarray(ids[:size], dtype=np.int32))
        return int(differing[0]) if len(differing) else size

    def usable(self, ids: Ids[int], required_outputs: RequiredOutputs) -> int:
        """How many of a text's first tokens need not run: shared ones whose rows are all there, never the last one.

        Args:
            required_outputs: of the sequence's drafter.
        """
        size = min(self.common(ids), len(ids) - 1)
        layers = [*required_outputs.hidden, *([FEATURES] if required_outputs.features else [])]
        return min([size, *(len(self.states[layer]) if layer in self.states else 0 for layer in layers)])

    def cut(self, length: int) -> None:
        """Forget everything behind the first `length` tokens.

        Raises ValueError where a sequence has taken the cache.
        """
        if self.given:
            raise ValueError("this prefix went to another sequence, which writes its cache; give each a copy")
        self.cache.truncate(length)
        self.ids = self.ids[:length]
        self.states = {layer: rows[:length] for layer, rows in self.states.items()}

    def copy(self, length: int) -> Prefix:
        """The first `length` tokens with buffers of their own."""
        if not 0 < length <= len(self):
            raise ValueError(f"cannot copy {length} of {len(self)} tokens")
        states = {layer: rows[:length].clone() for layer, rows in self.states.items()}
        return Prefix(self.ids[:length].copy(), self.cache.copy(length), states)

    def outputs(self, required_outputs: RequiredOutputs) -> ForwardOutputs:
        """Its rows as a prefill would have left them, as far as `required_outputs` asks; without logits and queries."""
        hidden = {layer: self.states[layer] for layer in required_outputs.hidden}
        return ForwardOutputs(torch.empty(0), hidden, {}, self.states[FEATURES] if required_outputs.features else None)


def _layers(made: ForwardOutputs) -> dict[int, torch.Tensor]:
    features = {} if made.features is None else {FEATURES: made.features}
    return {**made.hidden, **features}
