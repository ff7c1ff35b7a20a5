"""The parts of a target pass: one sequence's draft tree, or the next tokens of its prompt. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import NOTHING, RequiredOutputs
from decoder.model.kv_cache import KVCache


@dataclass(frozen=True, slots=True)
class TreePass:
    """One sequence's part of a pass.

    Attributes:
        cache: its cache.
        root: its last committed token.
        tree: its draft tree.
        required_outputs: the outputs that its drafter reads.
        masks: its adaptive rows; the target must have adapters for them.
    """

    cache: KVCache
    root: int
    tree: DraftTree
    required_outputs: RequiredOutputs = NOTHING
    masks: MaskChains = NO_MASKS

    @property
    def rows(self) -> int:
        """The number of rows, ordinary and adaptive."""
        return 1 + len(self.tree) + len(self.masks)


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """One sequence's part of a pass while its prompt is being processed: the next prompt tokens."""

    cache: KVCache
    ids: Sequence[int]
    required_outputs: RequiredOutputs = NOTHING

    @property
    def rows(self) -> int:
        return len(self.ids)
