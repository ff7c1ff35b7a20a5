"""`oracle`: the best earlier continuation in hindsight, the ceiling of what copying one chain a step can reach.

Knows the answer in advance, so it is a measure and no drafter for use.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.base import Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence

LONGEST = 64


class OracleDrafter(Drafter):
    """Drafts the longest beginning of the coming tokens that occurs anywhere in prompt and answer so far.

    The source lies whole before the current position: a copy never reads tokens it has itself drafted.

    Args:
        answer: the whole recorded answer.
        longest: tokens a copy has at most.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, answer: Ids[int], longest: int = LONGEST) -> None:
        self._answer = list(answer)
        self._longest = longest
        self._text: NDArray[np.int32] | None = None

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        done = len(sequence.tokens)
        if self._text is None:
            self._text = np.asarray(sequence.prompt + self._answer, np.int32)
        text = self._text[: len(sequence.prompt) + done]
        ahead = self._answer[done : done + min(self._longest, budget)]
        start, length = longest_copy(text, ahead)
        sources = [sequence.copy_of(self.name, start + i) for i in range(length)]
        return DraftTree.chain(ahead[:length], sources)


def longest_copy(text: NDArray[np.int32], ahead: Ids[int]) -> tuple[int, int]:
    """(start, length) of the longest beginning of `ahead` in `text`; the earliest of equal ones, (0, 0) for none."""
    starts = np.arange(len(text))
    best = (0, 0)
    for length, token in enumerate(ahead, 1):
        starts = starts[starts + length <= len(text)]
        starts = starts[text[starts + length - 1] == token]
        if not len(starts):
            break
        best = (int(starts[0]), length)
    return best
