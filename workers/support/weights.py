"""Weights: words weigh by how rare they are among the statements of the passages (inverse document frequency), so that
the measure needs no collection and no model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from workers.support.question import Question
from workers.support.words.word_forms import near

OF_PRICES = 0.05
"""Share of their weight that words have which only say that a number is a price."""
RELATED = 0.5
"""What a word of the question counts of which only another form, a part or a compound is there."""


class Weights:
    """Args:
    statements: the content words of each statement.
    """

    def __init__(self, statements: Sequence[Iterable[str]], question: Question) -> None:
        self._question = question
        self._statements = len(statements)
        self._counts = Counter(word for words in statements for word in words)

    def share(self, words: Sequence[str], there: frozenset[str]) -> float:
        """Share of the words' weight that is there; 0 for no words."""
        whole = sum(map(self._weight, words))
        return sum(self._weight(word) for word in words if word in there) / whole if whole else 0.0

    def of_question(self, there: frozenset[str], asked: Sequence[str] | None = None) -> float:
        """Share of what was asked that is there; of a word that only another form has, such as a compound, a part.

        Args:
            asked: content words of the question; None: all.
        """
        asked = self._question.content if asked is None else asked
        whole = sum(map(self._weight, asked))
        told = {word: 1.0 if word in there else RELATED * near(word, there) for word in asked}
        return sum(self._weight(word) * share for word, share in told.items()) / whole if whole else 1.0

    def _weight(self, word: str) -> float:
        weight = math.log(1 + self._statements / (self._counts[word] + 0.5))
        return OF_PRICES * weight if word in self._question.vocabulary.pricing else weight
