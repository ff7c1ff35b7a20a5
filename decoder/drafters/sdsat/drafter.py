"""`sdsat`: Speculative Decoding with Semantic Adaptive Tokens (arXiv 2403.18647), on adapters instead of a fine-tuned
model (`decoder.model.adapters`).

`sdsat_two_step` is section 2.1: a pass over the last token and k masks chooses a token and drafts the tokens after it;
the next pass verifies them. Both count as target passes and yield at most k + 2 tokens. For sampled answers (2.1.2) the
drafts are a tree, whose tokens are ranked with the answer's own noise.

`sdsat` needs one pass: masks follow the points where the accepted path may end, so each pass verifies and drafts. Mask
i (from 1) after a point at position p predicts the token at p + i + 1; the pass itself chooses the token at p + 1. If
the accepted path ends at a point without masks, the next pass has no draft, but masks after its root.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.sdsat.mask_tree import MaskGuesses, grow
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import NO_MASKS, MaskChains, MaskRows
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.errors import DrafterUnavailable
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.target import TargetModel
from decoder.sequence import Sequence

_UNKNOWN = 0.5
"""Chance of a node given its parent if another drafter proposed it."""


class SdsatDrafter(Drafter):
    """Drafts a tree from the masks of the last pass, so that one pass verifies and drafts.

    Args:
        length: k, masks after a point. Default: all that the adapters have. The paper trains windows of 3 to 7 and
            drafts with up to 13.
        nodes: most draft tokens.
        branches: most children of a node; 1 drafts chains.
        points: most accept points that get masks.
        least: smallest chance of a node or accept point; others are left out.
    """

    name: ClassVar[str] = "sdsat"

    def __init__(
        self,
        length: int | None = None,
        nodes: int = 8,
        branches: int = 4,
        points: int = 6,
        least: float = 0.02,
    ) -> None:
        if (length is not None and length < 1) or nodes < 1 or branches < 1 or points < 1:
            raise ValueError(
                f"length, nodes, branches and points must be at least 1, got {length}, {nodes}, {branches}, {points}"
            )
        if not 0.0 <= least < 1.0:
            raise ValueError(f"least must be 0 or more and below 1, got {least}")
        self.length = length
        self.nodes = nodes
        self.branches = branches
        self.points = points
        self.least = least
        self._target: TargetModel | None = None
        self._source = TokenSource(self.name)
        self._rows: MaskRows | None = None
        """The masks after the row that chose the last token."""
        self._position = -1
        """The sequence's position that they belong to."""
        self._guesses: MaskGuesses | None = None
        self._drafted = DraftTree()

    def setup(self, context: DrafterContext) -> None:
        target = context.target
        if target is None:
            raise DrafterUnavailable(self.name, "it reads rows of the target's passes, which recordings do not have")
        if target.adapters is None:
            raise DrafterUnavailable(
                self.name,
                "no adapters are loaded for this model; train them with `rag train sdsat` and name their folder with "
                "load_engine(sdsat_adapters=…) or the setting RAG_SDSAT_ADAPTERS",
            )
        if self.length is not None and self.length > target.adapters.length:
            raise DrafterUnavailable(
                self.name, f"its adapters were trained for {target.adapters.length} masks, not for {self.length}"
            )
        self._target = target
        self._masks = self.length or target.adapters.length

    def ready(self, sequence: Sequence) -> bool:
        """Whether the last pass had masks after the row that chose the last token, so that there is a draft."""
        return self._rows is not None and self._position == sequence.position

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        self._drafted = DraftTree()
        if not self.ready(sequence) or self._target is None or self._rows is None:
            return DraftTree()
        if self._guesses is None:
            self._guesses = MaskGuesses(self._target, self._rows.states, sequence.last_token)
        nodes = min(self.nodes, budget)
        tree = grow(sequence, self._guesses, self._source, nodes, self.branches, self.least)
        self._drafted = _copied(tree)
        return tree

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        """Masks after the points where the walk through `tree` is most likely to end.

        A caller may leave them out if they are not worth their rows; the next step then has no draft of this drafter.
        """
        if self._target is None or sequence.remaining < 3:  # the next pass completes the answer anyway
            return NO_MASKS
        ends = self._ends(tree)
        points = sorted((point for point in ends if ends[point] >= self.least), key=lambda point: -ends[point])
        return MaskChains.after(points[: self.points] or [ROOT], self._masks)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        self._rows, self._position, self._guesses = outputs.masks, sequence.position, None
        self._drafted = DraftTree()

    def _ends(self, tree: DraftTree) -> dict[int, float]:
        """Chance that the walk ends at each point: the chance to reach it less the chances of its children."""
        values = tree.values or self._values(tree)
        ends = {ROOT: 1.0}
        for node, (parent, value) in enumerate(zip(tree.parents, values, strict=True)):
            ends[node] = value
            ends[parent] -= value
        return ends

    def _values(self, tree: DraftTree) -> list[float]:
        """This drafter's estimates for the nodes of a tree that may contain other drafters' nodes."""
        own: dict[int, int | None] = {ROOT: ROOT}
        values: list[float] = []
        for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
            own_parent = own[parent]
            own[node] = own_node = None if own_parent is None else self._drafted.child(own_parent, token)
            parent_value = 1.0 if parent == ROOT else values[parent]
            values.append(parent_value * _UNKNOWN if own_node is None else self._drafted.values[own_node])
        return values


class SdsatTwoStepDrafter(SdsatDrafter):
    """The paper's two steps: a pass with masks after the root drafts, the next pass verifies."""

    name: ClassVar[str] = "sdsat_two_step"

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        return NO_MASKS if len(tree) else super().masks(sequence, tree)


def _copied(tree: DraftTree) -> DraftTree:
    """A copy with its own values: the engine clears those of trees that are verified whole."""
    copied = DraftTree()
    copied.merge(tree)
    copied.values = list(tree.values)
    return copied
