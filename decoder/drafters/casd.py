"""`casd`: Context-Aware Speculative Decoding, section 3 and appendix A.

The end of the text so far is matched with everything before it. The 2 longest matches (of 1 to 10 tokens, the latest
first among equals) give a continuation of 10 tokens each. Continuations merge into one tree. The paper adds these
copies to the tree of a neural drafter; they are also a drafter by themselves.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import CopyDrafter, Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence


class CasdDrafter(CopyDrafter):
    """Copies after the longest suffix matches.

    Args:
        max_match: longer matches count as this long.
        matches: number of continuations.
        length: tokens in each continuation.
        partner: a drafter to whose tree the copies are added.

    Raises:
        ValueError: a number is below 1.
    """

    name: ClassVar[str] = "casd"

    def __init__(self, max_match: int = 10, matches: int = 2, length: int = 10, partner: Drafter | None = None) -> None:
        super().__init__(length, partner)
        if max_match < 1 or matches < 1:
            raise ValueError(f"max_match and matches must be at least 1, got {max_match} and {matches}")
        self.max_match = max_match
        self.matches = matches

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, budget)
        if self.partner is None:
            return tree
        # If the budget is too small for both, the copies shrink, but not below half of it.
        partner_tree = self.partner.draft(sequence, budget - min(len(tree), budget // 2))
        tree = tree.pruned(budget - len(partner_tree))
        tree.merge(partner_tree)  # a node of both keeps the copy's source, for provenance
        return tree

    def starts(self, sequence: Sequence) -> list[int]:
        suffix = sequence.suffix(self.max_match)
        return [match.position for match in sequence.index.matches(suffix, self.matches, self.max_match)]
