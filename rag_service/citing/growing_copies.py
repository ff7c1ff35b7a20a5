"""Copied words of an answer while it grows, found by comparing texts: for answers that nothing was drafted for.

Knows texts and offsets in code points; knows no tokens, no jobs and no events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

LEAST_BYTES = 16
"""Length in UTF-8 of what must be equal before words count as copied: three English words, five Chinese signs."""
_BORDER = "\0"
_WIDE = "\u2e80"
"""From here on, scripts mostly write no spaces, so that each character may begin a word."""


class Copy(NamedTuple):
    """Characters start:end of the answer are those from `at` on of a source."""

    start: int
    end: int
    source: int
    at: int


class GrowingCopies:
    """Follows one answer.

    Args:
        sources: texts, those that are preferred first.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._starts: list[int] = []
        joined, length = [], 0
        for text in sources:
            self._starts.append(length)
            joined.append(text.replace(_BORDER, "\ufffd") + _BORDER)
            length += len(joined[-1])
        self._sources = "".join(joined)
        self._answer = ""
        self._next: int | None = None
        """Where the source goes on that the answer copies; None if it copies none."""

    def add(self, text: str) -> list[Copy]:
        """The copies in the text that follows, in order. One that goes on from the text before goes on in `at`."""
        first = len(self._answer)
        self._answer += text
        copies: list[Copy] = []
        for place in range(first, len(self._answer)):
            if self._next is not None and self._sources[self._next] == self._answer[place] != _BORDER:
                self._take(copies, place, first)
            else:
                self._next = self._found(place)
        return copies

    def _take(self, copies: list[Copy], place: int, first: int) -> None:
        """Add a character to the copy that it belongs to."""
        assert self._next is not None
        source = bisect_right(self._starts, self._next) - 1
        at = self._next - self._starts[source]
        last = copies[-1] if copies else None
        if last and (last.end, last.source, last.at + last.end - last.start) == (place, source, at):
            copies[-1] = last._replace(end=place + 1)
        else:
            copies.append(Copy(place, place + 1, source, at))
        self._next += 1

    def _found(self, place: int) -> int | None:
        """Where the answer's last words stand in a source, and go on; None if a word is not at its end, or nowhere."""
        character = self._answer[place]
        if character.isalnum() and character < _WIDE:
            return None
        start, size = place + 1, 0
        while size < LEAST_BYTES and start:
            start -= 1
            size += len(self._answer[start].encode("utf-8", "replace"))
        found = self._sources.find(self._answer[start : place + 1]) if size >= LEAST_BYTES else -1
        return None if found < 0 else found + place + 1 - start
