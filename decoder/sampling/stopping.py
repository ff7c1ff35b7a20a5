"""StopStrings: detects stop strings in token ids. The detokenizer is an argument, so no tokenizer is needed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Detokenize = Callable[[Sequence[int]], str]


class StopStrings:
    """Detects when the newest token completes a stop string.

    Args:
        stops: non-empty strings.
        detokenize: ids -> text without control tokens.
    """

    def __init__(self, stops: Sequence[str], detokenize: Detokenize) -> None:
        self._stops = tuple(stops)
        self._detokenize = detokenize
        self._reach = max(map(len, self._stops), default=0) + 4
        """Characters to read at the answer's end: a stop string, and a few more for a character cut at the border."""

    def completed_by_last(self, tokens: Sequence[int]) -> bool:
        """Whether the text of `tokens` contains a stop string that it did not contain without the last token."""
        window = 2 * self._reach
        while len(text := self._detokenize(tokens[-window:])) < 2 * self._reach and window < len(tokens):
            window *= 2
        return any(stop in text for stop in self._stops)
