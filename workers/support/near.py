"""Words in other forms and parts of compounds: Krankheit is near Erkrankung. Knows characters; knows no language."""

from __future__ import annotations

SHARED = 5
"""Leading characters of words that count as one."""


def near(word: str, around: frozenset[str]) -> bool:
    """Whether a word is among others, in some form or as a part of one."""
    if word in around or len(word) < SHARED - 1:
        return word in around or f"{word}s" in around  # the stemmer leaves words without a vowel: DVDs
    begins = word[:SHARED] if len(word) >= SHARED else word
    return any(
        other.startswith(begins) or word in other or (len(other) >= SHARED - 1 and other in word) for other in around
    )
