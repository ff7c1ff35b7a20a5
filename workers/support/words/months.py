"""Months and dates that a text names, and spans of them: "from 1 April to 1 October". Knows words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_MONTHS_IN_LINES = """
    january januar januari enero janvier
    february februar februari febrero février
    march märz maart marzo mars
    april avril abril
    may mai mei mayo
    june juni junio juin
    july juli julio juillet
    august augustus agosto août
    september septiembre septembre
    october oktober octubre octobre
    november noviembre novembre
    december dezember diciembre décembre
"""
MONTHS = {word: n for n, line in enumerate(_MONTHS_IN_LINES.strip().splitlines(), 1) for word in line.split()}
"""1 for January, to 12."""
_MONTH = "|".join(MONTHS)
_DAY = r"(?:(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?)?"
_SPAN = re.compile(
    rf"\b{_DAY}({_MONTH})(?:\s+\d{{4}})?\s*"
    r"(?:to|till|until|through|bis(?:\s+zum)?|tot(?:\s+en\s+met)?|t/m|a|al|hasta|au|-|–|—)\s*"
    rf"(?:the\s+|el\s+)?{_DAY}({_MONTH})\b"
)
_NAMED = re.compile(rf"\b({_MONTH})\b")
"""English: "may" is a month behind a preposition or a number alone."""
_ENGLISH_MAY = re.compile(r"(?:\b(?:in|of|by|from|to|until|till|since|early|late|mid|and)|\d\.?|[-–—])\s*$")
_DATE = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?(?P<month>{_MONTH})"
    rf"|(?P<before>{_MONTH})\s+(?:the\s+)?(?P<behind>\d{{1,2}})(?P<ordinal>st|nd|rd|th)?)\b(?!\d)"
)
_ON = re.compile(r"\b(?:on|by|from|to|until|till|since|before|after)\s*$")
"""Before "May 4", which begins "May 4 people …?" elsewhere."""
LAST_DAY = 31
STEM = 3
"""Letters of a month's name that tell it."""


class Date(NamedTuple):
    """A day of a month, of no year."""

    month: int
    day: int


def dates_in(text: str) -> frozenset[Date]:
    """The dates that a text names by themselves, outside of spans."""
    text = _SPAN.sub(" ", text.casefold())
    return frozenset(
        Date(MONTHS[match["month"] or match["before"]], int(match["day"] or match["behind"]))
        for match in _DATE.finditer(text)
        if match["before"] != "may" or match["ordinal"] or _ON.search(text[: match.start()])
    )


def spans_in(text: str) -> list[frozenset[int]]:
    """The months of each span that a text names. One that ends on the first of a month ends with the month before."""
    found = []
    for first_day, first, last_day, last in _SPAN.findall(text.casefold()):
        begins, ends = MONTHS[first], MONTHS[last]
        if last_day == "1" and first_day == "1":
            ends = (ends - 2) % 12 + 1
        found.append(frozenset((begins - 1 + n) % 12 + 1 for n in range((ends - begins) % 12 + 1)))
    return found


def months_in(text: str) -> frozenset[int]:
    """The months that a text names by themselves, outside of spans."""
    text = _SPAN.sub(" ", text.casefold())
    return frozenset(
        MONTHS[match[1]]
        for match in _NAMED.finditer(text)
        if match[1] != "may" or _ENGLISH_MAY.search(text[: match.start()])
    )


def is_for_others(text: str, asked: frozenset[int], dates: frozenset[Date] = frozenset()) -> bool:
    """Whether a text names spans of time without the months that were asked for, and does not name these otherwise.

    Args:
        dates: that were asked for, in place of their months.
    """
    spans = spans_in(text)
    if not (asked and spans) or not asked.isdisjoint(months_in(text)):
        return False
    if dates:
        return not any(_is_between(date, *ends) for date in dates for ends in _ends_in(text))
    return all(asked.isdisjoint(one) for one in spans)


def has_all(text: str, dates: frozenset[Date]) -> bool:
    """Whether one of a text's spans has all of some dates."""
    return any(all(_is_between(date, *ends) for date in dates) for ends in _ends_in(text))


def invented(text: str, there: Iterable[str], asked: frozenset[Date]) -> frozenset[Date]:
    """The dates of a claim that no passage can have: none has the day, which is no time of day, and the month.

    Args:
        there: the passages with what stands above them.
        asked: dates of the question.
    """
    plain = text if re.search(r"\bMay\b", text) else re.sub(r"\bmay\b", " ", text)  # "over 18 may vote"
    return frozenset(one for one in dates_in(plain) - asked if not any(_may_have(passage, one) for passage in there))


def _may_have(text: str, date: Date) -> bool:
    plain = text.casefold()
    names = [name[:STEM] for name, number in MONTHS.items() if number == date.month]
    month = rf"\b(?:{'|'.join(names)})|\d\W{{0,3}}0?{date.month}(?!\d)|(?<!\d)0?{date.month}\W{{0,3}}\d|{date.month}月"
    day = rf"(?<!\d)(?<!\d[:.])0?{date.day}(?!\d|:\d|\.\d\d\b(?!\.)|\s*(?:uhr|uur|h|am|pm)\b)"
    dotted = rf"(?<!\d)0?{date.day}\W{{1,3}}0?{date.month}(?!\d)|(?<!\d)0?{date.month}\W{{1,3}}0?{date.day}(?!\d)"
    return bool((re.search(day, plain) and re.search(month, plain)) or re.search(dotted, plain))


def _ends_in(text: str) -> list[tuple[Date, Date]]:
    """The first and the last day of each span."""
    return [
        (Date(MONTHS[first], int(first_day or 1)), Date(MONTHS[last], int(last_day or LAST_DAY)))
        for first_day, first, last_day, last in _SPAN.findall(text.casefold())
    ]


def _is_between(date: Date, first: Date, last: Date) -> bool:
    """Whether a date is in a span, which may go over the end of the year."""
    return first <= date <= last if first <= last else date >= first or date <= last
