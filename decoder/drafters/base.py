"""Drafter: proposes tokens for one sequence. A wrong draft costs time and never changes an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as Ids
from typing import TYPE_CHECKING, ClassVar

from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import NOTHING, ForwardOutputs, RequiredOutputs

if TYPE_CHECKING:
    from decoder.drafters.context import DrafterContext
    from decoder.drafts.accepted import Accepted
    from decoder.sequence import Sequence


class Drafter(ABC):
    """Drafts for one sequence; each sequence has its own drafter."""

    name: ClassVar[str]
    valued: ClassVar[bool] = False
    """Whether its trees have values, by which the engine prunes them to the nodes that pay."""
    may_rest: bool = False
    """Whether the engine may leave out `draft` and `observe` in a step, and call `rest` instead; final as below."""
    required_outputs: RequiredOutputs = NOTHING
    """The outputs that passes must keep for this drafter; final once `setup` returns."""

    def setup(self, context: DrafterContext) -> None:  # noqa: B027 - most drafters need nothing
        """Read what the engine's drafters share; called once, before prefill.

        Raises:
            DrafterUnavailable: the context lacks something that this drafter needs.
        """

    @abstractmethod
    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        """Propose at most `budget` nodes; with an empty tree the step is a plain one.

        The engine drops nodes beyond the budget. Tokens must be ids of the target's vocabulary.
        """

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        """The adaptive rows to add to the pass that verifies `tree`.

        They cost rows like draft nodes. `observe` gets their states in `ForwardOutputs.masks`. Called only for a pass
        that may have drafts.

        Args:
            sequence: the sequence.
            tree: this drafter's tree, after the budget.
        """
        return NO_MASKS

    def observe(  # noqa: B027 - most drafters learn nothing
        self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs
    ) -> None:
        """Learn from a verified step. Called once per step, and once after prefill with an empty tree.

        Args:
            sequence: the sequence, after the step. It may have finished within `accepted.tokens`.
            tree: the verified tree; other drafters may have drafted a part of it.
            accepted: the result of the walk through it.
            outputs: the rows that chose `accepted.tokens`, see `ForwardOutputs.along`; after prefill all prompt rows.
        """

    def rest(self, sequence: Sequence, accepted: Accepted) -> None:  # noqa: B027 - most drafters never rest
        """A step passed without a draft, because drafting would have taken longer than it could save.

        Args:
            sequence, accepted: as for `observe`.
        """


class CopyDrafter(Drafter):
    """A drafter that copies runs of earlier tokens, alone or with another drafter as its partner.

    Args:
        length: most tokens in a copy.
        partner: set up with the same context, and observes every step; subclasses decide when it drafts.

    Raises:
        ValueError: length is below 1.
        TypeError: the partner is not a drafter.
    """

    def __init__(self, length: int = 10, partner: Drafter | None = None) -> None:
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        if partner is not None and not isinstance(partner, Drafter):
            raise TypeError(f"a copy drafter's partner must be a drafter, not {partner!r}")
        self.length = length
        self.partner = partner

    def setup(self, context: DrafterContext) -> None:
        if self.partner is not None:
            self.partner.setup(context)
            self.required_outputs = self.partner.required_outputs

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if self.partner is not None:
            self.partner.observe(sequence, tree, accepted, outputs)

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        return NO_MASKS if self.partner is None else self.partner.masks(sequence, tree)

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        # A pass yields one token more than it accepts, so a node at depth `remaining` is never used.
        depth = min(self.length, budget, sequence.remaining - 1)
        for start in self.starts(sequence):
            copied = sequence.index.tokens[start : start + max(depth, 0)].tolist()
            sources = [sequence.copy_of(self.name, start + i) for i in range(len(copied))]
            tree.add_chain(copied, sources)
        return tree

    @abstractmethod
    def starts(self, sequence: Sequence) -> Ids[int]:
        """The positions in the sequence's index to copy from, best first."""
