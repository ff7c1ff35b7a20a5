"""Ranges of numbers at the head of a table's row: `2 to 5 kg`, `up to 12 years`, `from 65`, `ab 30`.

Knows numbers and the words around them; knows no table.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from workers.support.numbers import usual_form

_NUMBER = r"(?<![\d:.,])(\d+(?:[.,]\d+)?)(?![\d:]|[.,]\d)"
_ALONE = re.compile(rf"[^\d\w]{{0,4}}{_NUMBER}(?:\s*\D{{0,8}})?")
_TO = r"-|–|—|\b(?:to|and|bis|und|tot|en|a|y)\b"
_BETWEEN = re.compile(rf"{_NUMBER}[^\d\n]{{0,12}}?(?:{_TO})\s*{_NUMBER}")
_BELOW = re.compile(
    rf"\b(?:up to|under|below|until|less than|at most|bis(?: zu)?|unter|höchstens|tot(?: en met)?|onder|hooguit|hasta"
    rf"|menos de)\s+{_NUMBER}|[<≤]\s*{_NUMBER}"
)
_ABOVE = re.compile(
    rf"\b(?:over|above|from|more than|at least|ab|über|mehr als|mindestens|vanaf|boven|meer dan|desde|más de)"
    rf"\s+{_NUMBER}|[>≥]\s*{_NUMBER}"
    rf"|{_NUMBER}\s*(?:\+|(?:and|or) (?:over|more|older)|(?:und|oder) (?:mehr|älter)|en (?:meer|ouder))"
)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included."""

    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Range | None:
        """The range that a text names; None for none."""
        text = text.casefold()
        if found := _BETWEEN.search(text):
            low, high = map(_value, found.groups())
            return cls(low, high) if low < high else None
        if found := _BELOW.search(text):
            return cls(-math.inf, _value(next(filter(None, found.groups()))))
        if found := _ABOVE.search(text):
            return cls(_value(next(filter(None, found.groups()))), math.inf)
        return None

    @staticmethod
    def value(text: str) -> float | None:
        """The number that a text is, with a unit or a currency at most; None for others."""
        found = _ALONE.fullmatch(text.strip())
        return _value(found[1]) if found else None

    def has(self, number: float) -> bool:
        return self.low <= number <= self.high


def _value(number: str) -> float:
    return float(usual_form(number))
