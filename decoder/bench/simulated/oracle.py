"""`oracle`: the best earlier continuation in hindsight, the upper bound for copying one chain per step.

It knows the answer in advance, so it is a measure and not a usable drafter.
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
"""Most tokens of a copy."""


class OracleDrafter(Drafter):
    """Drafts the longest prefix of the coming tokens that occurs anywhere in the prompt and the answer so far.

    The source ends before the current position: a copy never reads tokens that it drafted itself.

    Args:
        answer: the whole recorded answer.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, answer: Ids[int]) -> None:
        self._answer = list(answer)
        self._text: NDArray[np.int32] | None = None

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        done = len(sequence.tokens)
        if self._text is None:
            self._text = np.asarray(sequence.prompt + self._answer, np.int32)
        text = self._text[: len(sequence.prompt) + done]
        ahead = self._answer[done : done + min(LONGEST, budget)]
        start, length = longest_copy(text, ahead)
        sources = [sequence.copy_of(self.name, start + i) for i in range(length)]
        return DraftTree.chain(ahead[:length], sources)


def longest_copy(text: NDArray[np.int32], ahead: Ids[int]) -> tuple[int, int]:
    """(start, length) of the longest prefix of `ahead` in `text`, the earliest if there are several; (0, 0) if none."""
    starts = np.arange(len(text))
    best = (0, 0)
    for length, token in enumerate(ahead, 1):
        starts = starts[starts + length <= len(text)]
        starts = starts[text[starts + length - 1] == token]
        if not len(starts):
            break
        best = (int(starts[0]), length)
    return best
