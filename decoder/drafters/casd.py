"""`casd`: Context-Aware Speculative Decoding, section 3 and appendix A; its copies alone.

The end of the text so far is matched against everything before it; the top 2 matches by length (up to 10 tokens, at
least 1; equal lengths: the latest first) each give a continuation of 10 tokens. Equal prefixes merge into one tree.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import CopyDrafter
from decoder.sequence import Sequence


class CasdDrafter(CopyDrafter):
    """Longest suffix matches.

    Args:
        max_match: longer matches count as this long.
        matches: continuations drafted.
        length: tokens copied from each.
    """

    name: ClassVar[str] = "casd"

    def __init__(self, max_match: int = 10, matches: int = 2, length: int = 10) -> None:
        super().__init__(length)
        if max_match < 1 or matches < 1:
            raise ValueError(f"max_match and matches must be at least 1, got {max_match} and {matches}")
        self.max_match = max_match
        self.matches = matches

    def starts(self, sequence: Sequence) -> list[int]:
        suffix = sequence.suffix(self.max_match)
        return [match.position for match in sequence.index.matches(suffix, self.matches, self.max_match)]
