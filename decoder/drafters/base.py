"""What a drafter is: something that proposes tokens for one sequence. It can be wrong; it can only cost time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as Ids
from typing import TYPE_CHECKING, ClassVar

from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import NOTHING, Artifacts, Needs

if TYPE_CHECKING:
    from decoder.drafters.context import Equipment
    from decoder.drafts.accepted import Accepted
    from decoder.sequence import Sequence


class Drafter(ABC):
    """Drafts for one sequence; each sequence has a drafter of its own."""

    name: ClassVar[str]
    valued: ClassVar[bool] = False
    """Whether its trees have values, so that the engine cuts them to what is worth its time."""
    needs: Needs = NOTHING
    """What passes must keep for this drafter; settled once `equip` returns."""

    def equip(self, equipment: Equipment) -> None:  # noqa: B027 - most drafters need nothing
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

        They cost rows like draft nodes; their states come back in `Artifacts.masks`. Only asked where it may draft.
        """
        return NO_MASKS

    def observe(  # noqa: B027 - most drafters learn nothing
        self, sequence: Sequence, tree: DraftTree, accepted: Accepted, artifacts: Artifacts
    ) -> None:
        """Learn from a verified step. Called once a step, and once after prefill with an empty tree.

        Args:
            sequence: with the step's tokens committed. It may have finished inside `accepted.tokens`.
            tree: what was drafted, not all of it by this drafter where several draft together.
            accepted: what the walk through it accepted.
            artifacts: the rows that chose `accepted.tokens`, see `Artifacts.kept`; after prefill all prompt rows.
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

    def equip(self, equipment: Equipment) -> None:
        if self.partner is not None:
            self.partner.equip(equipment)
            self.needs = self.partner.needs

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, artifacts: Artifacts) -> None:
        if self.partner is not None:
            self.partner.observe(sequence, tree, accepted, artifacts)

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
