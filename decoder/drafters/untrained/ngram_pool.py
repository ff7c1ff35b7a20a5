"""NgramPool: the n-grams that a lookahead window found, by their first token. Knows token ids only."""

from __future__ import annotations

from collections.abc import Sequence


class NgramPool:
    """At most `most` n-grams of each first token; the one that was found longest ago goes first.

    Lookahead decoding (arXiv 2402.02057), section 3.2.

    Args:
        most: G, n-grams of a token.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ngrams: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, first: int, rest: Sequence[int]) -> None:
        """Add the n-gram (first, *rest), or note that it was found again."""
        ngrams = self._ngrams.setdefault(first, {})
        ngram = tuple(rest)
        ngrams.pop(ngram, None)
        ngrams[ngram] = None
        if len(ngrams) > self._most:
            del ngrams[next(iter(ngrams))]

    def after(self, first: int) -> list[tuple[int, ...]]:
        """What follows `first` in its n-grams, the newest first."""
        return list(reversed(self._ngrams.get(first, ())))
