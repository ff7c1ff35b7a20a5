"""Text that becomes final while token ids arrive one by one.

Knows how bytes become characters; knows no tokenizer beyond the bytes of each id. The text depends on the ids alone,
never on their grouping into steps.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from decoder.sampling.stopping import cut_at_stop


class HasTokenBytes(Protocol):
    """The part of a tokenizer that TextStream needs."""

    def token_bytes(self, token: int) -> bytes: ...

    @property
    def strips_space(self) -> bool: ...


class TextStream:
    """Incremental detokenizer with stop strings.

    The pushes and the flush concatenate to `cut_at_stop(decode(ids), stop)`. An unfinished UTF-8 character and any end
    of the text that could begin a stop string stay pending.

    Args:
        tokens: has the bytes of each id.
        stop: strings that end the text; the text never contains one.

    Raises:
        ValueError: a stop string is empty.
    """

    def __init__(self, tokens: HasTokenBytes, stop: Sequence[str] = ()) -> None:
        if not all(stop):
            raise ValueError("a stop string is empty; give at least one character")
        self._tokens = tokens
        self._stop = tuple(stop)
        self._characters = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = tokens.strips_space
        self._pending = ""
        self.stopped = False

    def push(self, token: int) -> tuple[str, bool]:
        """Add one id. Returns the text that became final, and whether a stop string is complete.

        After a stop there is no more text.
        """
        if self.stopped:
            return "", True
        data = self._tokens.token_bytes(token)
        if self._at_start and data:
            self._at_start = False
            data = data.removeprefix(b" ")
        return self._release(self._characters.decode(data)), self.stopped

    def flush(self) -> str:
        """End the text and return its pending rest. An unfinished character becomes U+FFFD."""
        if self.stopped:
            return ""
        text = self._release(self._characters.decode(b"", final=True)) + self._pending
        self._pending = ""
        return text

    def _release(self, text: str) -> str:
        self._pending, self.stopped = cut_at_stop(self._pending + text, self._stop)
        keep = 0 if self.stopped else self._undecided()
        final = self._pending[: len(self._pending) - keep]
        self._pending = self._pending[len(final) :]
        return final

    def _undecided(self) -> int:
        """Length of the longest end of the pending text that begins a stop string."""
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(self._pending)), 0, -1):
            end = self._pending[-length:]
            if any(string.startswith(end) for string in self._stop):
                return length
        return 0
