"""What numbers are for each of: ten euros a person are not ten euros a booking. Knows words; knows no sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from workers.support.words.vocabulary import Vocabulary
from workers.support.words.word_forms import near

_PER = frozenset(("per", "pro"))
_GERMAN = "je"
"""It is "you" in Dutch."""


def is_per_another(said: Sequence[str], there: Sequence[str], vocabulary: Vocabulary) -> bool:
    """Whether a claim is for each of what a sentence does not name, which is for each of something else.

    Args:
        said, there: words of the claim and the sentence, as `words_of` gives them.
        vocabulary: of the question's language.
    """
    claimed, stated = _each(said, vocabulary), _each(there, vocabulary)
    if not (claimed and stated and any(word[0].isdigit() for word in said)):
        return False
    words = frozenset(vocabulary.content(there))
    return not any(near(word, words) for word in claimed)


def _each(words: Sequence[str], vocabulary: Vocabulary) -> set[str]:
    """The content words behind "per", but for numbers: "per 24 hours" is a day."""
    per = _PER | {_GERMAN} if vocabulary.language == "de" else _PER
    behind = [word for before, word in pairwise(words) if before in per and not word[0].isdigit()]
    return set(vocabulary.content(behind))
