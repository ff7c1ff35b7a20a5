"""Vocabulary: the content words of texts in one language, in a form in which they can be compared. Knows words; knows
no sentences.
"""

from __future__ import annotations

from collections.abc import Iterable

from retriever.lexical.stop_words import TELLING
from retriever.words import Words
from workers.support.words.numbers import PRICING, usual_form
from workers.support.words.polarity import NEGATIONS, NUMERALS, words_of
from workers.support.words.states import STATES
from workers.support.words.word_forms import SAME, SINGULARS

_SAYING_NOTHING = frozenset(
    ("hinein", "herein", "rein", "hinaus", "drin", "drinnen", "erin", "daarin", "naar", "binnen")
)
"""Words of places that lists of stop words lack."""


class Vocabulary:
    """Args:
    language: an ISO 639-1 code.

    Attributes:
        language: the same.
        pricing: content words that only say that a number is a price.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._words = Words(language, NEGATIONS | NUMERALS | TELLING)
        self.pricing = frozenset(self._words.content(PRICING))

    def content(self, words: Iterable[str]) -> list[str]:
        """The content words among words, each once, without those that only say no."""
        words = [word for word in words if word not in NEGATIONS]
        words = [usual_form(SINGULARS.get(word, word)) for word in words if word not in _SAYING_NOTHING]
        words = [STATES.get(word, SAME.get(word, word)) for word in words]
        return list(dict.fromkeys(self._words.content(words)))

    def of(self, text: str) -> list[str]:
        """The content words of a text."""
        return self.content(words_of(text))
