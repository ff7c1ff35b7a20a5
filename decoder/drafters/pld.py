"""`pld`: prompt lookup decoding (Saxena 2023), the baseline of PLD+ (arXiv 2412.01447).

The last n-gram, for n = 3, then 2, then 1, is looked up in everything before it. The 10 tokens after its earliest
occurrence are copied as one chain. The prompt lookup of transformers is the same with n = 2, 1. Saxena's first function
also skipped occurrences that fewer than 10 tokens follow.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import CopyDrafter
from decoder.drafts.token_index import ORDERS
from decoder.sequence import Sequence


class PldDrafter(CopyDrafter):
    """Prompt lookup.

    Args:
        max_ngram: longest n-gram to look up, 1 to 4.
        length: tokens to copy.

    Raises:
        ValueError: max_ngram or length is out of range.
    """

    name: ClassVar[str] = "pld"

    def __init__(self, max_ngram: int = 3, length: int = 10) -> None:
        super().__init__(length)
        if not 1 <= max_ngram <= 4:
            raise ValueError(f"max_ngram must be 1 to 4, got {max_ngram}")
        self.sizes = [n for n in reversed(ORDERS) if n <= max_ngram]

    def starts(self, sequence: Sequence) -> list[int]:
        index = sequence.index
        suffix = sequence.suffix(self.sizes[0])
        for n in self.sizes:
            if n <= len(suffix):
                start = index.first(suffix[-n:], before=len(index) - 1)
                if start is not None:
                    return [start]
        return []
