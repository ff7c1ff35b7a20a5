"""Rows of tables: what a cell says, with its own row and what stands above its column.

`| Day ticket | 7.50 | 4 |` below `| Ticket | Adults | Children |` says of 4 that it is for children, not for adults.

Knows lines of text; knows no question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from workers.support.passages.ranges import Range
from workers.support.words.polarity import negations, words_of
from workers.support.words.states import STATES, turned
from workers.support.words.word_forms import near

Size = tuple[str, str]
"""A number of a question and the word behind it, or ""."""
UNITLESS = frozenset(("", "year", "old", "jahr", "jahrig", "jaar", "jarig", "año"))
"""Words behind numbers that rows' heads mostly leave out; those of ages."""

FEW = 3
"""Most words of a cell that says no to its column."""

_ROW = re.compile(r"\s*\|.*\||[^|\n]*\|[^|\n]*\|")
_DIVIDER = re.compile(r"[\s|:+-]+")
_BETWEEN = re.compile(r"(?<!\\)\|")

_STATES = frozenset(STATES.values())
_OPEN = frozenset(("open",))
_IDENTIFIERS = ("extens", "teleph", "telef", "phone", "durchwahl", "toestel", "mobil", "fax")
"""What words begin with that head columns of numbers which count nothing."""
_TIMES = re.compile(r"\d[:.]\d\d\b|\d\s*(?:am|pm|uhr|uur|h)\b", re.IGNORECASE)
_YES = frozenset(("yes", "y", "ja", "sí", "si", "oui", "sim", "true", "x", "✓", "✔", "✅", "☑", "是", "有"))
_NO = frozenset(("no", "n", "nein", "nee", "non", "não", "false", "✗", "✘", "❌", "☐", "-", "–", "—", "否", "无", "無"))

Words = Callable[[str], Iterable[str]]
"""The content words of a text."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table that has names above its columns.

    Attributes:
        texts: its cells.
        cells: the words of each of them.
        above: the words of the cells of the table's first row.
        labels: the words of the first cells of all rows of the table that are in the passage.
        ranges: the ranges of numbers that these name.
        own_range: the row's own.
    """

    texts: Sequence[str]
    cells: Sequence[frozenset[str]]
    above: Sequence[frozenset[str]]
    labels: Sequence[frozenset[str]]
    ranges: Sequence[Range | None] = ()
    own_range: Range | None = None
    rows: Sequence[frozenset[str]] = ()
    """The words of each of these rows."""
    names: Sequence[str] = ()
    """The cells of the table's first row."""

    @property
    def has_head(self) -> bool:
        """Whether the table's first row surely names its columns: of two, or with figures, it may be a record."""
        return len(self.names) > 2 and not any(map(str.isdigit, "".join(self.names)))

    def told(self, own: Collection[str], sizes: Collection[Size] = (), is_asked: bool = False) -> frozenset[str]:
        """The words of the row, and those above its first cell, above each cell that has some of a claim's own words or
        of the question's, and above each yes and no; and the sizes that were asked for, if its range has them."""
        headers = (
            header
            for number, (cell, header) in enumerate(zip(self.cells, self.above, strict=False))
            if not number or not cell.isdisjoint(own) or self._verdict(number) is not None
        )
        own_range = self.own_range if self.measures(sizes) else None
        here = frozenset(number for number, _ in sizes if own_range and own_range.has(float(number)))
        if is_asked or self._is_asked(own):  # its cells tell what columns are about; times, that it is open
            cells = [number for number in self._named(own) if number < len(self.texts)]
            here = here.union(*(self.above[number] for number in cells))
            here |= _OPEN if any(_TIMES.search(self.texts[number]) for number in cells) else frozenset()
        return here.union(*self.cells, *headers)

    def is_beside(self, asked: Collection[str]) -> bool:
        """Whether another row's head has what was asked for, and its own has not."""
        here = _without_numbers(self.cells[0].intersection(asked))
        return any(_without_numbers(label.intersection(asked)) > here for label in self.labels)

    def says_no(self, asked: Collection[str], words: Sequence[str], is_asked: bool = False) -> bool:
        """Whether its cells in the columns that were asked for deny it: `Monday | closed` of "open on Mondays".

        Args:
            words: all words that were asked.
            is_asked: its head is about a day that was asked for.
        """
        numbers = self._named(asked) or set(range(1, len(self.above)))
        texts = [self.texts[number] for number in numbers if number < len(self.texts)]
        if not (is_asked or self._is_asked(asked)) or self.is_beside(asked) or not texts:
            return False
        return all(_is_no(text) or turned(words, words_of(text)) for text in texts)

    def answers_otherwise(self, numbers: Collection[str], asked: Collection[str]) -> bool:
        """Whether it is the row that was asked for, with other numbers in the columns that were."""
        wanted = [number for number in self._named(asked) if number < len(self.cells)]
        if not self._is_asked(asked) or self.is_beside(asked) or not wanted:
            return False
        here = frozenset().union(*(self.cells[number] for number in wanted))
        return any(word[0].isdigit() for word in here) and here.isdisjoint(numbers)

    def _is_asked(self, asked: Collection[str]) -> bool:
        """Whether all of its head was asked for."""
        return bool(self.cells) and _has_word(self.cells[0]) and self.cells[0].issubset(asked)

    def says(self, own: Collection[str], asked: Collection[str]) -> str:
        """Its first cell and those with words of a claim's own; a no counts only in a column that was asked for, and a
        state such as closed, if the claim or the question names a column, in that."""
        here = [cell.intersection(own) for cell in self.cells]
        named = self._named({*own, *asked}) or {n for n, found in enumerate(here) if _without_numbers(found) != found}
        named = named or set(range(len(here)))
        cells = [
            text
            for n, (text, found) in enumerate(zip(self.texts, here, strict=True))
            if not n or (found and (n in named or not _STATES.issuperset(found)))
        ]
        return " ".join([*(["no"] if self.answer(asked) is False else []), *cells])

    def answer(self, asked: Collection[str]) -> bool | None:
        """The yes or no in a column whose name was asked for: a no, if there are both; None for neither."""
        verdicts = {self._verdict(number) for number in self._named(asked) if number < len(self.cells)} - {None}
        return all(verdicts) if verdicts else None

    def is_elsewhere(self, values: Collection[str], asked: Collection[str], sizes: Collection[Size] = ()) -> bool:
        """Whether a claim's values stand in other columns than those whose names were asked for, or in another row."""
        wanted = self._named(asked)
        holding = {number for number, cell in enumerate(self.cells) if number and not cell.isdisjoint(values)}
        if not holding:
            return self.heads(values) and self._lacks(asked)
        if wanted and (wanted.isdisjoint(holding) or self._mixes(values, wanted)) and not self._counts(wanted, values):
            return True
        if (measures := self.measures(sizes)) is not None:
            return not measures
        rest = _STATES.difference(*self.cells[:1]).union(*self.above[1:])  # of the columns; says nothing of the row
        here = frozenset().union(*self.cells).intersection(asked) - rest
        others = [row.intersection(asked) - rest for row in (*self.labels, *self.rows)]
        return any(other > here or _without_numbers(other) > _without_numbers(here) for other in others)

    def has_in_named(self, values: Collection[str], asked: Collection[str]) -> bool:
        """Whether it is a row that was asked for, and has one of a claim's numbers in a column that was."""
        here = frozenset().union(*(self.cells[n] for n in self._named(asked) if n < len(self.cells)))
        return not self.cells[0].isdisjoint(asked) and any(value in here for value in values if value[0].isdigit())

    def _counts(self, wanted: Collection[int], values: Collection[str]) -> bool:
        """Whether columns hold numbers, and a claim's values are none: "Who teaches …?" beside prices of children."""
        cells = [self.cells[number] for number in wanted if number < len(self.cells)]
        numeric = bool(cells) and all(any(word[0].isdigit() for word in cell) for cell in cells)
        here = frozenset().union(*self.cells).intersection(values)
        return numeric and not any(word[0].isdigit() for word in here)

    def _lacks(self, asked: Collection[str]) -> bool:
        """Whether what was asked for stands in other rows, but for their heads: "Which of them speaks Turkish?" """
        rest = _STATES.union(*self.above[1:])
        here, *others = (
            _without_numbers(row.intersection(asked) - label - rest)
            for row, label in zip((frozenset().union(*self.cells), *self.rows), self._heads(), strict=False)
        )
        return any(other > here for other in others)

    def _heads(self) -> list[frozenset[str]]:
        return [*self.cells[:1], *self.labels]

    def _mixes(self, values: Collection[str], wanted: Collection[int]) -> bool:
        """Whether a number among a claim's values stands only in columns that neither the question nor the claim
        names: from 08:00 to 20:00, with 08:00 in July's column and 20:00 in June's."""
        named = {*wanted, *(n for n, header in enumerate(self.above) if n and not header.isdisjoint(values))}
        for value in values:
            holding = {number for number, cell in enumerate(self.cells) if value in cell}
            if value[0].isdigit() and holding and named.isdisjoint(holding):
                return True
        return False

    def identifies(self, numbers: Collection[str]) -> bool:
        """Whether one of some numbers stands in columns of telephone numbers alone."""
        for value in numbers:
            holding = [n for n, cell in enumerate(self.cells) if value in cell and n < len(self.above)]
            if holding and all(any(word.startswith(_IDENTIFIERS) for word in self.above[n]) for n in holding):
                return True
        return False

    def heads(self, own: Collection[str]) -> bool:
        """Whether a claim's own words name it, and stand in no other cell."""
        here = [number for number, cell in enumerate(self.cells) if not cell.isdisjoint(own)]
        return here == [0]

    def is_headed_by(self, names: Collection[str]) -> bool:
        """Whether its head has names, some of them perhaps only in what stands above: "the course Weaving" """
        above = frozenset().union(*self.above[:1])
        left = [name for name in names if not near(name, above)]
        return bool(left) and all(near(name, self.cells[0]) for name in left)

    def compares(self, wanted: Range, asked: Collection[str]) -> bool | None:
        """Whether the numbers in the columns whose names were asked for are in a range; None without such numbers,
        and of a row that is headed by a range itself."""
        if self.own_range is not None:
            return None  # it is the row of such numbers
        found = [Range.value(self.texts[number]) for number in self._named(asked) if number < len(self.cells)]
        return None if not found or None in found else all(one is not None and wanted.has(one) for one in found)

    def measures(self, sizes: Collection[Size]) -> bool | None:
        """Whether the range at its head has a size that was asked for; None if no row's has."""
        if self.own_range is None or not sizes:
            return None
        units = UNITLESS.union(*self.labels, *self.above[:1])
        numbers = [number for number, unit in sizes if unit in units]
        if not any(one is not None and any(map(one.has, map(float, numbers))) for one in self.ranges):
            return None
        return any(map(self.own_range.has, map(float, numbers)))

    def _named(self, asked: Collection[str]) -> set[int]:
        """The columns whose names were asked for, but for the first; not for a number in a name of words alone.

        Those whose whole name was, if there are any: "Lanes only" rather than "Hall and lanes", of the lanes."""
        named = {number: header.intersection(asked) for number, header in enumerate(self.above) if number}
        named = {one: said for one, said in named.items() if _has_word(said) or not _has_word(self.above[one])}
        whole = [said for one, said in named.items() if said and said == self.above[one]]
        return {
            one
            for one, said in named.items()
            if said
            and not any(said < other for other in named.values())
            and (said == self.above[one] or not any(said <= other for other in whole))
        }

    def _verdict(self, number: int) -> bool | None:
        """The yes or no that a cell is; None for others."""
        text = self.texts[number].strip().casefold()
        return True if text in _YES else False if text in _NO else None


def rows_of(text: str, first: str, words: Words) -> dict[int, Row]:
    """The rows of a text's tables by the place where their lines begin, without the tables' first rows.

    Args:
        first: the first row of a table that goes on where the text begins, as chunks have it: `Ticket | Adults`; or "".
    """
    found: dict[int, Row] = {}
    at = 0
    for are_rows, group in groupby(text.split("\n"), key=is_row):
        lines = list(group)
        if are_rows:
            goes_on = not at and "|" in first and not _DIVIDER.fullmatch(lines[1] if len(lines) > 1 else "")
            head, below = (first, lines) if goes_on else (lines[0], lines[1:])
            names = [cell.strip() for cell in _cells(head)]
            above = [frozenset(words(name.replace("_", " "))) for name in names]  # member_price
            texts = [_cells(line) for line in below]
            cells = [[frozenset(words(cell)) for cell in row] for row in texts]
            labels = [row[0] for row in cells]
            ranges = [Range.read(row[0]) for row in texts]
            place = at if goes_on else at + len(lines[0]) + 1
            rows = [frozenset().union(*row) for row in cells]
            for line, text_of, row, own in zip(below, texts, cells, ranges, strict=True):
                found[place] = Row(text_of, row, above, labels, ranges, own, rows, names)
                place += len(line) + 1
        at += sum(map(len, lines)) + len(lines)
    return found


def is_row(line: str) -> bool:
    """Whether a line is a row of a Markdown table."""
    return _ROW.match(line) is not None


def _is_no(text: str) -> bool:
    """Whether a cell says no alone, or of a word or two: "not included"."""
    words = words_of(text)
    return text.strip().casefold() in _NO or (len(words) <= FEW and negations(words) % 2 == 1)


def _without_numbers(words: Iterable[str]) -> set[str]:
    return {word for word in words if not word[0].isdigit()}


def _has_word(words: Iterable[str]) -> bool:
    return bool(_without_numbers(words))


def _cells(row: str) -> list[str]:
    return _BETWEEN.split(row.strip().removeprefix("|").removesuffix("|"))
