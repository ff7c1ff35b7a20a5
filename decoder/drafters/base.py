"""What a drafter is: something that proposes tokens for one sequence. It can be wrong; it can only cost time."""

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
    """Drafts for one sequence; each sequence has a drafter of its own."""

    name: ClassVar[str]
    valued: ClassVar[bool] = False
    """Whether its trees have values, so that the engine cuts them to what is worth its time."""
    required_outputs: RequiredOutputs = NOTHING
    """What passes must keep for this drafter; settled once `setup` returns."""

    def setup(self, context: DrafterContext) -> None:  # noqa: B027 - most drafters need nothing
        """Take what the engine's drafters share; called once, before prefill.

        Raises DrafterUnavailable where something this drafter cannot do without is missing.
        """

    @abstractmethod
    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        """Propose at most `budget` nodes; an empty tree means one plain step.

        The engine drops nodes beyond the budget. Tokens must be ids of the target's vocabulary.
        """

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        """Adaptive rows wanted in the pass that verifies `tree`, what was left of this drafter's after the budget.

        They cost rows like draft nodes. Their states come back in `ForwardOutputs.masks`. Called where it may draft.
        """
        return NO_MASKS

    def observe(  # noqa: B027 - most drafters learn nothing
        self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs
    ) -> None:
        """Learn from a verified step. Called once a step, and once after prefill with an empty tree.

        Args:
            sequence: with the step's tokens committed. It may have finished inside `accepted.tokens`.
            tree: what was drafted, not all of it by this drafter where several draft together.
            accepted: what the walk through it accepted.
            outputs: the rows that chose `accepted.tokens`, see `ForwardOutputs.kept`; after prefill all prompt rows.
        """


class CopyDrafter(Drafter):
    """A drafter that copies runs of earlier tokens, alone or with another drafter as its partner.

    Args:
        length: tokens a copy proposes at most.
        partner: shares equipment and sees every step, whoever drafted it; what it drafts is up to the subclass.
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
        # A pass yields one token more than it accepts: a node at depth `remaining` could never be used.
        depth = min(self.length, budget, sequence.remaining - 1)
        for start in self.starts(sequence):
            copied = sequence.index.tokens[start : start + max(depth, 0)].tolist()
            sources = [sequence.copy_of(self.name, start + i) for i in range(len(copied))]
            tree.add_chain(copied, sources)
        return tree

    @abstractmethod
    def starts(self, sequence: Sequence) -> Ids[int]:
        """Positions in the sequence's index to copy from, best first."""
