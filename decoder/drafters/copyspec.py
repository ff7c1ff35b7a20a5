"""`copyspec`: CopySpec (arXiv 2502.08923), section 3.

The last gamma = 3 tokens are hashed and looked up; the first earlier occurrence that does not overlap them gives a
chain of 10 tokens. Where none matches, another drafter is asked (section 3.3: a draft model), or nothing is drafted
where there is none. The guaranteed token that each verification yields
(section 3.2) is emitted and indexed; appendix B, which would emit none and so could loop at k = 0, is not followed
there.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import CopyDrafter, Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence


class CopySpecDrafter(CopyDrafter):
    """Speculative copying.

    Args:
        gamma: tokens that must match, 1 to 4.
        length: tokens copied, the paper's |S_speculate|.
        fallback: drafts where nothing matches.
    """

    name: ClassVar[str] = "copyspec"

    def __init__(self, gamma: int = 3, length: int = 10, fallback: Drafter | None = None) -> None:
        super().__init__(length, fallback)
        if not 1 <= gamma <= 4:
            raise ValueError(f"gamma must be 1 to 4, got {gamma}")
        self.gamma = gamma

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, budget)
        return tree if len(tree) or self.partner is None else self.partner.draft(sequence, budget)

    def starts(self, sequence: Sequence) -> list[int]:
        suffix = sequence.suffix(self.gamma)
        if len(suffix) < self.gamma:
            return []
        start = sequence.index.first(suffix, before=len(sequence.index) - self.gamma)
        return [] if start is None else [start]
