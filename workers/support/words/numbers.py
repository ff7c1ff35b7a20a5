"""Numbers in words and digits, which texts write in several ways: 1,200 and 1200, 9:30 and 9.30, two and 2.

Knows English, German, Dutch and Spanish number words; knows no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from workers.support.words.polarity import NUMERALS

_COUNTED = """
    zero one two three four five six seven eight nine ten eleven twelve
    null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf
    nul één twee drie vier vijf zes zeven acht negen tien elf twaalf
    cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce
"""
_VALUES = {word: str(value) for line in _COUNTED.strip().splitlines() for value, word in enumerate(line.split())}
_PRICING = """
    cost costs costing price priced prices amount amounts pay pays charge charged fee
    kosten kostet kostete betragen beträgt preis preise gebühr zahlen
    kost kostte kosten bedraagt bedragen prijs prijzen betaal betaalt betalen
    cuesta cuestan costar precio precios vale valen pagar
    euro euros eur pound pounds pence gbp dollar dollars cents usd franc francs franken chf
"""
PRICING = frozenset(_PRICING.split())
"""Words that say that a number is a price. Answers have them where tables and lists of prices have none."""
_SEPARATORS = re.compile(r"[.,:]")
_THOUSANDS = re.compile(r"[.,](?=\d{3}(?:\D|$))")


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
            found |= {_SEPARATORS.sub("", one) for one in (word, usual_form(word))}
        elif word in NUMERALS:
            found.add(word)
    return found


def usual_form(word: str) -> str:
    """One way to write a number: 1200 of 1,200, 7.5 of 7,50, 9 of 9:00, 2 of two. Other words as they are."""
    if not word[0].isdigit():
        return _VALUES.get(word, word)
    whole, *rest = _SEPARATORS.split(_THOUSANDS.sub("", word))
    decimals = ".".join(rest).rstrip("0").rstrip(".")
    return f"{whole}.{decimals}" if decimals else whole


def others(said: Iterable[str], there: Iterable[str]) -> set[str]:
    """The numbers among words that other words have in no form."""
    if not (own := numbers(said)):
        return own
    known = forms(there)
    return {number for number in own if known.isdisjoint(forms([number]))}
