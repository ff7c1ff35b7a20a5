"""Stop strings: where they cut a text, and which token completes one. Knows ids only through a detokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Detokenize = Callable[[Sequence[int]], str]


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """Cut `text` before the stop string that is complete first; of several that end there, the longest counts.

    Returns the text before the cut and whether it was cut.
    """
    ends = [(start + len(string), start) for string in stop if (start := text.find(string)) >= 0]
    if not ends:
        return text, False
    return text[: min(ends)[1]], True


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
        return cut_at_stop(text, self._stops)[1]
