"""Tables of a PDF that go on on the next page: their rows there get the names of the columns once more.

Knows tables and the text around them; knows no PDF library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NEAR = 2.5
"""Points by which a column may lie elsewhere on the next page."""

_DIGITS = re.compile(r"\d+")

Cells = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page.

    Attributes:
        lefts: where its columns begin, and where the last one ends, in points.
        names: its first row.
        after: the lines below it on the page.
    """

    lefts: Sequence[float]
    names: Sequence[str]
    after: frozenset[str]


class Continued:
    """Of one document, page by page. A table goes on at the top of the next page in the same columns; what stands
    between its parts is at the foot or the head of both pages."""

    def __init__(self) -> None:
        self._before: list[PageTable] = []
        self._lines_before: frozenset[str] = frozenset()
        self._here: list[PageTable] = []
        self._lines: frozenset[str] = frozenset()

    def turn(self, text: str) -> None:
        """The next page, with this text."""
        self._before, self._lines_before = self._here, self._lines
        self._here, self._lines = [], _lines(text)

    def headed(self, rows: Cells, lefts: Sequence[float], above: str, below: str) -> Cells:
        """A table's rows, below the names of its columns, if it began on the page before.

        Args:
            above, below: the page's text before and after it.
        """
        begun = self._begun(rows, lefts, _lines(above))
        rows = rows if begun is None or list(rows[0]) == list(begun.names) else [begun.names, *rows]
        if len(rows) > 1:
            self._here.append(PageTable(lefts, rows[0], _lines(below)))
        return rows

    def _begun(self, rows: Cells, lefts: Sequence[float], above: frozenset[str]) -> PageTable | None:
        if not above <= self._lines_before or not any(map(str.isdigit, "".join(rows[0]))):
            return None  # a row of words alone may be names of columns
        return next((one for one in self._before if one.after <= self._lines and _are_near(one.lefts, lefts)), None)


def _are_near(lefts: Sequence[float], others: Sequence[float]) -> bool:
    return len(lefts) == len(others) and all(abs(one - other) <= NEAR for one, other in zip(lefts, others, strict=True))


def _lines(text: str) -> frozenset[str]:
    """Lines without their figures, such as those of the page."""
    return frozenset(line for line in (_DIGITS.sub("", line).strip() for line in text.splitlines()) if line)
