"""Rows of tables: what a cell says, with its own row and what stands above its column.

`| Day ticket | 7.50 | 4 |` below `| Ticket | Adults | Children |` says of 4 that it is for children, not for adults.

Knows lines of text; knows no question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

_ROW = re.compile(r"\s*\|.*\||[^|\n]*\|[^|\n]*\|")
_DIVIDER = re.compile(r"[\s|:+-]+")
_BETWEEN = re.compile(r"(?<!\\)\|")

Words = Callable[[str], Iterable[str]]
"""The content words of a text."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table that has names above its columns.

    Attributes:
        cells: the words of each of its cells.
        above: the words of the cells of the table's first row.
        others: the words of the first cells of the other rows, as far as they are in the passage.
    """

    cells: Sequence[frozenset[str]]
    above: Sequence[frozenset[str]]
    others: Sequence[frozenset[str]]

    def told(self, own: Collection[str]) -> frozenset[str]:
        """The words of the row, and those above its first cell and above each cell that has words of a claim's own."""
        headers = (
            header
            for number, (cell, header) in enumerate(zip(self.cells, self.above, strict=False))
            if not number or not cell.isdisjoint(own)
        )
        return frozenset().union(*self.cells, *headers)

    def is_elsewhere(self, values: Collection[str], asked: Collection[str]) -> bool:
        """Whether a claim's values stand in other columns than those whose names were asked for, or in another row."""
        named = {number: header.intersection(asked) for number, header in enumerate(self.above) if number}
        wanted = {one for one, words in named.items() if words and not any(words < other for other in named.values())}
        holding = {number for number, cell in enumerate(self.cells) if number and not cell.isdisjoint(values)}
        if not holding:
            return False
        if wanted and wanted.isdisjoint(holding):
            return True
        here = frozenset().union(*self.cells).intersection(asked)
        return any(other.intersection(asked) > here for other in self.others)


def row_at(text: str, start: int, first: str, words: Words) -> Row | None:
    """The row of a table that a place in a text lies in; None outside of tables, and in a table's first row.

    Args:
        first: the first row of a table that begins before the text, as its chunks have it: `Ticket | Adults`; or "".
    """
    begin = text.rfind("\n", 0, start) + 1
    line = text[begin:].partition("\n")[0]
    if not is_row(line) or _DIVIDER.fullmatch(line):
        return None
    before = [*takewhile(is_row, reversed(text[:begin].removesuffix("\n").split("\n")))][::-1]
    run = [*before, line, *takewhile(is_row, text[begin + len(line) + 1 :].split("\n"))]
    goes_on = "|" in first and not _DIVIDER.fullmatch(run[1] if len(run) > 1 else "")
    head = first if goes_on else run[0]
    if not (before or goes_on):
        return None
    cells, above = ([frozenset(words(cell)) for cell in _cells(row)] for row in (line, head))
    labels = [_cells(row)[0] for row in run if row not in (line, head) and not _DIVIDER.fullmatch(row)]
    return Row(cells, above, [frozenset(words(label)) for label in labels])


def is_row(line: str) -> bool:
    """Whether a line is a row of a Markdown table."""
    return _ROW.match(line) is not None


def _cells(row: str) -> list[str]:
    return _BETWEEN.split(row.strip().removeprefix("|").removesuffix("|"))
