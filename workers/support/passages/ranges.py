"""Ranges of numbers: at the head of a table's row, such as `2 to 5 kg`, `up to 12 years`, `from 65`, `ab 30`, and in
sentences: `from 7 days before arrival`, which are at most 7.

Knows numbers and the words around them; knows no table.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from workers.support.words.numbers import usual_form

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
_SIZE = re.compile(rf"{_NUMBER}\s+([^\W\d]+)")
_COUNTED_DOWN = re.compile(r"\W*(\w+)\s+(?:before|prior|vor|voor|antes)\b")
_UNIT = re.compile(r"\W*(\w*)")
_UNTIL = re.compile(r"(?:up to|until|bis(?: zu)?|tot(?: en met)?|hasta)\b")
_SINCE = re.compile(r"(?:from|ab|vanaf|desde)\b")


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a text, or a range of them, with the word behind it, in lower case, and whether it counts down to
    something: 7 days before arrival."""

    range: Range
    unit: str
    down: bool


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

    @classmethod
    def all(cls, sentence: str) -> list[Measured]:
        """The ranges that a sentence names. Those that count down to something are turned round: "from 7 days before
        arrival" are 7 or less, and "up to 30 days before" 30 or more."""
        text = sentence.casefold()
        found: list[tuple[int, int, Measured]] = []
        for match in chain.from_iterable(one.finditer(text) for one in (_BETWEEN, _BELOW, _ABOVE)):
            if any(match.start() < end and start < match.end() for start, end, _ in found):
                continue  # a part of "from 6 to 9"
            numbers = [_value(number) for number in match.groups() if number]
            before = _COUNTED_DOWN.match(text, match.end())
            turned = before is not None and (_UNTIL.match(match[0]) or _SINCE.match(match[0]))
            if match.re is _BETWEEN:
                one = cls(min(numbers), max(numbers))
            elif (match.re is _BELOW) != bool(turned):
                one = cls(-math.inf, numbers[0])
            else:
                one = cls(numbers[0], math.inf)
            unit = _UNIT.match(text, match.end())
            found.append((*match.span(), Measured(one, unit[1] if unit else "", before is not None)))
        return [measured for _, _, measured in sorted(found, key=itemgetter(0))]

    @classmethod
    def sizes(cls, question: str) -> list[Measured]:
        """The single numbers that a question names with a unit: 5 days, 10 days before arrival."""
        text = question.casefold()
        return [
            Measured(cls(_value(match[1]), _value(match[1])), match[2], bool(_COUNTED_DOWN.match(text, match.end(1))))
            for match in _SIZE.finditer(text)
        ]

    @staticmethod
    def value(text: str) -> float | None:
        """The number that a text is, with a unit or a currency at most; None for others."""
        found = _ALONE.fullmatch(text.strip())
        return _value(found[1]) if found else None

    def has(self, number: float) -> bool:
        return self.low <= number <= self.high


def _value(number: str) -> float:
    return float(usual_form(number))
