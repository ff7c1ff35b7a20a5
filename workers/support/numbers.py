"""Numbers in words and digits, which texts write in several ways: 1,200 and 1200, 9:30 and 9.30, two and 2.

Knows English, German, Dutch and Spanish number words; knows no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from workers.support.polarity import NUMERALS

_COUNTED = """
    zero one two three four five six seven eight nine ten eleven twelve
    null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf
    nul één twee drie vier vijf zes zeven acht negen tien elf twaalf
    cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce
"""
_VALUES = {word: str(value) for line in _COUNTED.strip().splitlines() for value, word in enumerate(line.split())}
_SEPARATORS = re.compile(r"[.,:]")


def numbers(words: Iterable[str]) -> set[str]:
    """The words that are numbers."""
    return {word for word in words if word[0].isdigit() or word in NUMERALS}


def forms(words: Iterable[str]) -> set[str]:
    """The digits of numbers, so that two ways to write one number share some. Other words have none."""
    found: set[str] = set()
    for word in words:
        if value := _VALUES.get(word):
            found.add(value)
        elif word[0].isdigit():
            digits = _SEPARATORS.sub("", word)
            found |= {digits} if digits == word else {digits, digits.rstrip("0")}
        elif word in NUMERALS:
            found.add(word)
    return found


def others(said: Iterable[str], there: Iterable[str]) -> set[str]:
    """The numbers among words that other words have in no form."""
    if not (own := numbers(said)):
        return own
    known = forms(there)
    return {number for number in own if known.isdisjoint(forms([number]))}
