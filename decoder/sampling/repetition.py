"""Repetition: ends an answer that repeats one stretch of tokens again and again.

Knows the answer's tokens and the prompt's, so it decides the same in every batch, after a resume, and with any drafter.
Knows no model, no text, and no corpora: these change from one run to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LONGEST_STRETCH = 512
"""Longer stretches are not looked for."""
VARIED = 8
"""A stretch with fewer different tokens is fill (a rule, a row of zeros) and may go on twice as long."""


@dataclass(frozen=True, slots=True)
class RepetitionStop:
    """When repetition ends an answer: one stretch, back to back, at the answer's end.

    Args:
        length: fewest tokens of all repeats together; twice as many if the stretch has fewer than VARIED different
            tokens.
        times: fewest repeats.

    Repeats that the prompt has already allow as many more (`Repetition`).

    Raises:
        ValueError: length is below 1, or times below 2.
    """

    length: int = 128
    times: int = 4

    def __post_init__(self) -> None:
        for name, value, least in (("length", self.length, 1), ("times", self.times, 2)):
            if value < least:
                raise ValueError(f"repetition.{name} must be at least {least}, got {value!r}")


class Repetition:
    """Follows one answer, token by token. `push` takes microseconds, however long the answer is.

    An answer that copies repeats from its prompt (a table, a listing, a drawing), or edits them, does not end there:
    stretches of about the same length that the prompt has k times in a row may come k times more.

    Args:
        rule: when to end.
        prompt: the prompt's token ids; read when the answer first repeats itself for long enough.
    """

    __slots__ = ("_head", "_matched", "_needed", "_prompt", "_prompt_repeats", "_recent", "_rule")

    def __init__(self, rule: RepetitionStop, prompt: Sequence[int]) -> None:
        self._rule = rule
        self._prompt = prompt
        self._prompt_repeats: dict[int, int] = {}
        stretches = np.arange(1, LONGEST_STRETCH + 1)
        self._needed = np.maximum(rule.length, rule.times * stretches) - stretches
        self._matched = np.zeros(LONGEST_STRETCH, np.int64)
        """Index i: how many of the last tokens equal the token i + 1 places before them."""
        self._recent = np.full(4 * LONGEST_STRETCH, -1, np.int64)
        """The last tokens, the newest first, from `_head` on."""
        self._head = len(self._recent) - LONGEST_STRETCH

    def push(self, token: int) -> bool:
        """Add the answer's next token; returns whether the answer ends after it."""
        head = self._head
        self._matched += 1
        self._matched *= self._recent[head : head + LONGEST_STRETCH] == token
        if head == 0:
            head = len(self._recent) - LONGEST_STRETCH
            self._recent[head:] = self._recent[:LONGEST_STRETCH]
        self._head = head = head - 1
        self._recent[head] = token
        long_enough = self._matched >= self._needed
        shortest = int(long_enough.argmax())
        return bool(long_enough[shortest]) and self._ends(shortest + 1)

    def _ends(self, stretch: int) -> bool:
        """Whether the repeats of a stretch of this length, which are long enough by themselves, end the answer."""
        repeated = int(self._matched[stretch - 1]) + stretch
        different = len(set(self._recent[self._head : self._head + stretch].tolist()))
        length = self._rule.length if different >= VARIED else 2 * self._rule.length
        if stretch not in self._prompt_repeats:
            half, double = (stretch + 1) // 2, 2 * stretch
            self._prompt_repeats[stretch] = most_repeats(self._prompt, range(half, double + 1))
        allowed = self._prompt_repeats[stretch] * stretch
        return repeated >= allowed + max(length, self._rule.times * stretch)


def most_repeats(tokens: Sequence[int], stretches: range) -> int:
    """How often a stretch of one of these lengths comes back to back at most; 0 if none comes twice in a row."""
    ids: NDArray[np.int64] = np.asarray(tokens, np.int64)
    most = 0
    for stretch in stretches:
        same = ids[stretch:] == ids[:-stretch]
        if np.count_nonzero(same) < max(most, 1) * stretch:
            continue
        breaks = np.flatnonzero(~same)
        matched = int(np.diff(breaks, prepend=-1, append=len(same)).max()) - 1
        if matched >= stretch:
            most = max(most, matched // stretch + 1)
    return most
