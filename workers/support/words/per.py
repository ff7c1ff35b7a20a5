"""What numbers are for each of: ten euros a person are not ten euros a booking. Knows words; knows no sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from workers.support.words.vocabulary import Vocabulary

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
    return bool(claimed and stated) and claimed.isdisjoint(stated) and claimed.isdisjoint(vocabulary.content(there))


def _each(words: Sequence[str], vocabulary: Vocabulary) -> set[str]:
    """The content words behind "per"."""
    per = _PER | {_GERMAN} if vocabulary.language == "de" else _PER
    return {word for before, behind in pairwise(words) if before in per for word in vocabulary.content([behind])}
