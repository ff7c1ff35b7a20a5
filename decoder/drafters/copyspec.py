"""`copyspec`: CopySpec (arXiv 2502.08923), section 3.

The last gamma = 3 tokens are looked up; their first earlier occurrence that does not overlap them gives a chain of 10
tokens. Without a match, another drafter drafts (a draft model in section 3.3), if there is one. The token that each
verification yields besides the accepted ones (section 3.2) is emitted and indexed. Appendix B differs: it emits no such
token, and so could loop at k = 0.
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
        length: tokens to copy, the paper's |S_speculate|.
        fallback: the drafter for steps without a match.

    Raises:
        ValueError: gamma or length is out of range.
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
