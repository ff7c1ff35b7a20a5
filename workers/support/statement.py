"""Statement: a sentence of a passage, or a row of a table, with what stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.support.passages.ranges import Range
from workers.support.passages.rows import UNITLESS, Row, rows_of
from workers.support.passages.sentences import sentences
from workers.support.question import Question
from workers.support.words.days import days_in
from workers.support.words.numbers import usual_form

_HEAD_OF_TABLE = re.compile(r"[^\n]*\|[^\n]*\n[ \t]*\|?[ \t:|]*-[-\s:|]*(?:\n|$)|[ \t]*\|?[ \t:|]*-[ \t:|-]*(?:\n|$)")
"""Its first row, and the line below that."""
_AGES = frozenset(("age", "alter", "leeftijd", "edad"))
"""What heads a column of ages."""
_MARKER = re.compile(r"\W*\d{1,3}\W*")
_BLANK_LINE = re.compile(r"\n\s*\n")
_HEADING = re.compile(r"[^\n]{1,80}[^\n.!?:;,…。！？]")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a passage.

    Attributes:
        passage: index of the passage.
        start, end: its place in the passage's text, in code points.
        words: its content words.
        around: those of its paragraph, of the headings above that, and of the passage's title.
        above: those of the latter two alone.
        heading: those of the headings alone.
        row: the row of a table that it is, or is in.
        sizes: the numbers of the question of whose unit it names ranges, and whether these have them; and the days of
            the question, if it names any, and whether it names them.
    """

    passage: int
    start: int
    end: int
    text: str
    words: frozenset[str]
    around: frozenset[str]
    above: frozenset[str]
    heading: frozenset[str]
    row: Row | None
    sizes: Mapping[str, bool]

    def told(self, own: Iterable[str], question: Question) -> frozenset[str]:
        """Its words; of a row of a table also those that say what the cells with a claim's own words are about."""
        if self.row is None:
            return self.words
        is_asked = any(self.sizes.values())
        return self.row.told(frozenset([*own, *question.columns]), question.numbers, is_asked) | self.above


def statements_of(passages: Sequence[str], titles: Sequence[str], question: Question) -> Iterator[Statement]:
    """The statements of passages, in their order. Arguments as `Evidence`."""
    for number, text in enumerate(passages):
        yield from _read(number, text, titles[number] if number < len(titles) else "", question)


def _read(number: int, text: str, title: str, question: Question) -> Iterator[Statement]:
    content = question.vocabulary.of
    first_row = title.rpartition("\n")[2]
    title = title.removesuffix(first_row) if "|" in first_row else title
    above = set(content(title))
    headings = set(content(title.partition("\n")[2]))
    rows = rows_of(text, first_row, content)
    heading: set[str] = set()
    around: frozenset[str] = frozenset(above)
    end_of_paragraph = 0
    for start, end in sentences(text):
        if start >= end_of_paragraph:
            blank = _BLANK_LINE.search(text, start)
            end_of_paragraph = blank.end() if blank else len(text)
            paragraph = text[start : blank.start() if blank else len(text)]
            around = frozenset(above.union(heading, content(paragraph)))
            first = paragraph.partition("\n")[0]
            if first.startswith("#") or _HEADING.fullmatch(paragraph.strip()):
                heading = set(content(first))
        if _MARKER.fullmatch(text[start:end]) or _HEAD_OF_TABLE.match(text, text.rfind("\n", 0, start) + 1):
            continue  # "4." of a list and names of columns state nothing
        said, row = text[start:end], rows.get(text.rfind("\n", 0, start) + 1)
        sizes = _sizes_of(row, question) if row else sizes_in(said, question)
        yield Statement(
            number,
            start,
            end,
            said,
            frozenset(content(said)),
            around,
            frozenset(above | heading),
            frozenset(headings | heading),
            row,
            sizes,
        )


def sizes_in(said: str, question: Question) -> dict[str, bool]:
    """The numbers of the question of whose unit a sentence names ranges, and whether one of these has each. Years are
    ages, and need not be named: "children under 9 may only …"."""
    content = question.vocabulary.of
    found = _days(said, question)
    unit: list[str] = []
    for measured in Range.all(said) if question.sizes else ():
        unit = content(measured.unit) or unit  # "10 to 24 people get …; groups of 25 or more"
        is_age = measured.of_persons or UNITLESS.issuperset(unit)
        for size in question.sizes:
            wanted = content(size.unit)
            asks_age = size.of_persons or (bool(wanted) and UNITLESS.issuperset(wanted))
            if size.down == measured.down and (asks_age if is_age else unit == wanted):
                number = usual_form(f"{size.range.low:g}")
                found[number] = found.get(number, False) or measured.range.has(size.range.low)
                found[number] = found[number] or measured.range == question.range  # "under 14", of those under 14
    return found


def _days(said: str, question: Question) -> dict[str, bool]:
    """The days of the question, if a text names any, and whether it names each."""
    there = days_in(said) if question.days else frozenset()
    return {word: day in there for word, day in question.days.items()} if there else {}


def _sizes_of(row: Row, question: Question) -> dict[str, bool]:
    """The days of the question at the head of a row, or else in its cells, and its ages in a column of ages."""
    found = _days(row.texts[0], question) or _days(" ".join(row.texts[1:]), question)
    for header, text in zip(row.above, row.texts, strict=False):
        ages = None if _AGES.isdisjoint(header) else Range.read(text)
        for size in question.sizes if ages else ():
            if ages and (size.of_persons or UNITLESS.issuperset(question.vocabulary.of(size.unit))):
                found[usual_form(f"{size.range.low:g}")] = ages.has(size.range.low)
    return found
