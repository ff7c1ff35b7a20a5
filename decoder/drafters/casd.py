"""`casd`: Context-Aware Speculative Decoding, section 3 and appendix A.

The end of the text so far is matched against everything before it; the top 2 matches by length (up to 10 tokens, at
least 1; equal lengths: the latest first) each give a continuation of 10 tokens. Equal prefixes merge into one tree.
The paper adds these copies to the tree of a neural drafter; alone they are a drafter too.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import CopyDrafter, Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence


class CasdDrafter(CopyDrafter):
    """Longest suffix matches.

    Args:
        max_match: longer matches count as this long.
        matches: continuations drafted.
        length: tokens copied from each.
        partner: a drafter whose tree the copies are added to.
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
        # Where the budget cannot hold both, the copies yield, down to half of it.
        others = self.partner.draft(sequence, budget - min(len(tree), budget // 2))
        tree = tree.pruned(budget - len(others))
        tree.merge(others)  # a node that both propose keeps the copy's source: it says where the token comes from
        return tree

    def starts(self, sequence: Sequence) -> list[int]:
        suffix = sequence.suffix(self.max_match)
        return [match.position for match in sequence.index.matches(suffix, self.matches, self.max_match)]
