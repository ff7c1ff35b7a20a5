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
    rf"\b(?:up to|under|below|until|(?:less|smaller|shorter|closer|nearer|fewer) than|at most|bis(?: zu)?|unter"
    rf"|(?:weniger|kleiner|kürzer|näher) als|höchstens|tot(?: en met)?|onder|hooguit"
    rf"|(?:minder|kleiner|korter|dichterbij) dan|hasta|menos de)\s+{_NUMBER}|[<≤]\s*{_NUMBER}"
)
_ABOVE = re.compile(
    rf"\b(?:over|above|from(?: the age of)?|(?:more|larger|longer|bigger|taller|higher|farther|further) than|at least"
    rf"|minimum(?: age)?(?: of)?|ab|über|(?:mehr|größer|länger|höher|weiter) als|mindestens|mindestalter(?: von)?"
    rf"|vanaf|boven|(?:meer|groter|langer|hoger|verder) dan|minstens|ten minste|minimumleeftijd(?: van)?|desde|más de)"
    rf"\s+{_NUMBER}|[>≥]\s*{_NUMBER}"
    rf"|{_NUMBER}\s*(?:\+|(?:and|or) (?:over|more|older)|(?:und|oder) (?:mehr|älter)|en (?:meer|ouder))"
)
_LEFT_OUT = re.compile(
    r"(?:under|below|\w+ than|unter|onder|menos de|over|above|über|\w+ als|boven|\w+ dan|más de)\b|[<>]"
)
_SIZE = re.compile(rf"{_NUMBER}[\s-]+([^\W\d]+)")
_END_OF_RANGE = re.compile(r"\d\s*[-–/]\s*$")
_AGED = re.compile(
    rf"\b(?:am|i'm|is|aged?|bin|bist|ist|ben|bent|soy|tengo)\s+{_NUMBER}(?=\s*(?:[.,!?;]|$|and\b|und\b|en\b|y\b))"
)
"""An age without a unit: "if I am 15"."""
_PERSONS = re.compile(
    r"(?:child(?:ren)?|kids?|people|persons?|members?|adults?|visitors?|guests?|youths?|anyone|everyone|those"
    r"|kind(?:er|ern|eren)?|person(?:en)?|personen|mensen|leden|mitglieder|jugendliche[nr]?|jongeren|jeugd|bezoekers"
    r"|besucher|gäste|niños|personas|miembros)(?:\s+(?:aged?|who are|im alter|die|von|van|de))*\s+$"
)
_COUNTED_DOWN = re.compile(
    r"\W*(\w+)\s+(?:before|beforehand|prior|ahead|in advance|earlier|vor|vorher|zuvor|vorab|davor|im voraus|voor|vooraf"
    r"|tevoren|van tevoren|ervoor|antes)\b"
)
_UNIT = re.compile(r"\W*(\w*)")
_UNTIL = re.compile(r"(?:up to|until|bis(?: zu)?|tot(?: en met)?|hasta)\b")
_SINCE = re.compile(r"(?:from|ab|vanaf|desde)\b")


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a text, or a range of them.

    Attributes:
        unit: the word behind it, in lower case.
        down: it counts down to something: 7 days before arrival.
        of_persons: it stands behind a word for people, so that it is an age if nothing else: "children under 9 pay".
    """

    range: Range
    unit: str
    down: bool
    of_persons: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included, or both left out: "under 6", "over 70"."""

    low: float
    high: float
    left_out: bool = False

    @classmethod
    def read(cls, text: str) -> Range | None:
        """The range that a text names; None for none."""
        text = text.casefold()
        if found := _BETWEEN.search(text):
            low, high = map(_value, found.groups())
            return cls(low, high) if low < high else None
        if found := _BELOW.search(text):
            return cls(-math.inf, _value(next(filter(None, found.groups()))), _leaves_out(found))
        if found := _ABOVE.search(text):
            return cls(_value(next(filter(None, found.groups()))), math.inf, _leaves_out(found))
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
                one = cls(-math.inf, numbers[0], _leaves_out(match))
            else:
                one = cls(numbers[0], math.inf, _leaves_out(match))
            unit = _UNIT.match(text, match.end())
            of_persons = _PERSONS.search(text[: match.start()]) is not None
            found.append((*match.span(), Measured(one, unit[1] if unit else "", before is not None, of_persons)))
        return [measured for _, _, measured in sorted(found, key=itemgetter(0))]

    @classmethod
    def sizes(cls, question: str) -> list[Measured]:
        """The single numbers that a question names with a unit, and ages: 5 days, 10 days before arrival, "I am 15"."""
        text = question.casefold()
        with_unit = [
            Measured(cls(_value(match[1]), _value(match[1])), match[2], bool(_COUNTED_DOWN.match(text, match.end(1))))
            for match in _SIZE.finditer(text)
            if not _END_OF_RANGE.search(text[: match.start()])
        ]
        ages = [_value(match[1]) for match in _AGED.finditer(text)]
        return with_unit + [Measured(cls(age, age), "", False, of_persons=True) for age in ages]

    @staticmethod
    def value(text: str) -> float | None:
        """The number that a text is, with a unit or a currency at most; None for others."""
        found = _ALONE.fullmatch(text.strip())
        return _value(found[1]) if found else None

    def has(self, number: float) -> bool:
        return self.low < number < self.high if self.left_out else self.low <= number <= self.high


def _leaves_out(match: re.Match[str]) -> bool:
    return _LEFT_OUT.match(match[0]) is not None


def _value(number: str) -> float:
    return float(usual_form(number))
