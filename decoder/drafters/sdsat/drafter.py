"""`sdsat`: Speculative Decoding with Semantic Adaptive Tokens (arXiv 2403.18647), on adapters instead of a fine-tuned
model (`decoder.model.adapters`).

`sdsat_two_step` is section 2.1: a pass over the last token and k masks chooses a token and drafts those behind it, the
next pass verifies them; both count as target passes, and yield k + 2 tokens at most. For sampled answers (2.1.2) the
drafts are a tree, whose tokens are ranked with the answer's own noise.

`sdsat` needs one pass: masks hang behind the points where the verified drafts may end, so each pass verifies and
drafts. Mask i behind a point at position p tells the token at p + i + 1; the one at p + 1 is the pass's own choice.
A pass that ends at a point without masks has no drafts for the next one, which then holds masks behind its root.
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
"""Chance of a node below its parent where another drafted it."""


class SdsatDrafter(Drafter):
    """Trees read off masks that the last pass held. In one pass.

    Args:
        length: k, masks behind a point; all that the adapters have where None. The paper trains windows of 3 to 7 and
            drafts with up to 13.
        nodes: draft tokens at most.
        branches: children of a node at most; 1 drafts chains.
        points: accept points that get masks at most.
        least: nodes, and accept points, of a smaller chance are left out.
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
        """The masks behind the row that chose the last token."""
        self._at = -1
        """Position of the sequence that they belong to."""
        self._guesses: MaskGuesses | None = None
        self._drafted = DraftTree()

    def setup(self, context: DrafterContext) -> None:
        target = context.target
        if target is None:
            raise DrafterUnavailable(self.name, "it reads rows of the target's passes, which no recording holds")
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
        """Whether the last pass held masks behind the row that chose the last token, so that there is a draft."""
        return self._rows is not None and self._at == sequence.position

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
        """Masks behind the points where the walk through `tree` is likeliest to end, in one pass.

        A caller that thinks them not worth their rows leaves them out: the next step then has no draft of this drafter.
        """
        if self._target is None or sequence.remaining < 3:  # the pass yields one token, the next one its last
            return NO_MASKS
        ends = self._ends(tree)
        points = sorted((point for point in ends if ends[point] >= self.least), key=lambda point: -ends[point])
        return MaskChains.after(points[: self.points] or [ROOT], self._masks)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        self._rows, self._at, self._guesses = outputs.masks, sequence.position, None
        self._drafted = DraftTree()

    def _ends(self, tree: DraftTree) -> dict[int, float]:
        """Chance that the walk ends at each point: that it gets there, less that it goes on to a child."""
        values = tree.values or self._values(tree)
        ends = {ROOT: 1.0}
        for node, (parent, value) in enumerate(zip(tree.parents, values, strict=True)):
            ends[node] = value
            ends[parent] -= value
        return ends

    def _values(self, tree: DraftTree) -> list[float]:
        """This drafter's own estimates for the nodes of a tree that may hold others' as well."""
        own: dict[int, int | None] = {ROOT: ROOT}
        values: list[float] = []
        for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
            at = own[parent]
            own[node] = None if at is None else self._drafted.child(at, token)
            known = own[node]
            above = 1.0 if parent == ROOT else values[parent]
            values.append(above * _UNKNOWN if known is None else self._drafted.values[known])
        return values


class SdsatTwoStepDrafter(SdsatDrafter):
    """The paper's two steps: passes with masks behind the root alone, and passes that verify what they drafted."""

    name: ClassVar[str] = "sdsat_two_step"

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        return NO_MASKS if len(tree) else super().masks(sequence, tree)


def _copied(tree: DraftTree) -> DraftTree:
    """The tree with values of its own: the engine clears those of drafters whose trees are verified whole."""
    copied = DraftTree()
    copied.merge(tree)
    copied.values = list(tree.values)
    return copied
