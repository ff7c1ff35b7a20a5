"""The ruled tables of a PDF's pages: what stands between their lines, as Markdown tables in the page's text.

Knows pypdfium2. A table takes the place of its own words alone: where these are not one piece of the page's text, or
cells do not have each of them once, the text stays as it was. Tables without lines between their columns stay, too.
Coordinates are points, from the lower left corner.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pypdfium2
import pypdfium2.raw as pdfium

from retriever.parsing.pdf_continued import Continued
from retriever.parsing.tables import markdown_table

NEAR = 2.5
"""Lines so near to each other are one, and meet."""
THIN = 3.0
"""A path that is not wider or not higher is a line."""
SHORT = 6.0
"""Shorter lines are letters, bullets and dashes."""
MOST_STROKES, MOST_LINES, MOST_CELLS = 20_000, 1000, 3000
"""Of a page, of the lines that they make, and of a grid; with more it is a drawing."""
WORK = 200_000_000
"""Cells times letters of their pages that are looked at in a document: some three seconds of a processor."""
LONGEST = 1000
"""Characters of a cell; in a longer one, the lines divide a page and not a table."""
EDGE = 2.0
"""What is left out at the sides of a cell."""
TOUCHING = 0.5
"""Half the width of the strip along a line in which a letter stands on it."""

T = TypeVar("T")
Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""
_LAST_HYPHEN = re.compile("[\x02\ufffe]$")
"""A hyphen at the end of a line, as pdfium gives it; at a cell's end it divides no word."""


@dataclass(slots=True)
class Rule:
    """A line: at `at` across, from `start` to `end` along."""

    at: float
    start: float
    end: float

    def reaches(self, place: float) -> bool:
        return self.start - NEAR <= place <= self.end + NEAR


class RuledTables:
    """Of one document. Pages that come when `WORK` is spent keep their text as it is."""

    def __init__(self) -> None:
        self._left = WORK
        self._continued = Continued()

    def in_text(
        self, page: pypdfium2.PdfPage, text_page: pypdfium2.PdfTextPage, text: str, clean: Callable[[str], str]
    ) -> str:
        """The text of a page with its ruled tables as Markdown, each between blank lines.

        Args:
            text: the page's, as `clean` leaves it.
        """
        self._continued.turn(text)
        for grid in _grids(page):
            self._left -= grid.size * len(text)
            if self._left < 0:
                break
            rows = grid.cells(text_page)
            words = clean(text_page.get_text_bounded(*grid.box)).strip()
            if not _is_table(rows) or text.count(words) != 1 or grid.is_crossed(text_page):
                continue
            if _letters(words) != _letters("".join(map("".join, rows))):
                continue
            before, after = text.split(words)
            headed = self._continued.headed(rows, grid.lefts, before, after)
            if len(headed) == 1:
                continue  # a frame
            table = clean(markdown_table([[_LAST_HYPHEN.sub("-", cell) for cell in row] for row in headed]))
            text = "\n\n".join(filter(None, (before.rstrip("\n"), table, after.lstrip("\n"))))
        return text


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    longest = max(len(cell) for row in rows for cell in row)
    return longest <= LONGEST and sum(sum(map(bool, row)) > 1 for row in rows) >= min(len(rows), 2)


def _letters(text: str) -> Counter[str]:
    return Counter(char for char in text if not char.isspace())


@dataclass(frozen=True, slots=True)
class Grid:
    """Places from the top and from the left at which cells may begin, and the lines between them."""

    tops: Sequence[float]
    lefts: Sequence[float]
    across: Sequence[Rule]
    down: Sequence[Rule]

    @property
    def size(self) -> int:
        """How many cells there may be."""
        return (len(self.tops) - 1) * (len(self.lefts) - 1)

    @property
    def box(self) -> Box:
        return _within(self.lefts[0], self.tops[-1], self.lefts[-1], self.tops[0])

    def cells(self, text_page: pypdfium2.PdfTextPage) -> list[list[str]]:
        """The words of each cell; one over several columns stands in the first, one over several rows at its top."""
        taken: set[tuple[int, int]] = set()
        cells = [[""] * (len(self.lefts) - 1) for _ in self.tops[1:]]
        for row, line in enumerate(cells):
            for column in range(len(line)):
                if (row, column) in taken:
                    continue
                below, right = self._ends(row, column)
                taken.update((y, x) for y in range(row, below) for x in range(column, right))
                box = _within(self.lefts[column], self.tops[below], self.lefts[right], self.tops[row])
                line[column] = " ".join(text_page.get_text_bounded(*box).split())
        return cells

    def is_crossed(self, text_page: pypdfium2.PdfTextPage) -> bool:
        """Whether letters stand on a line between columns: words that run over it would be torn."""
        return any(
            text_page.get_text_bounded(
                rule.at - TOUCHING, rule.start + EDGE, rule.at + TOUCHING, rule.end - EDGE
            ).strip()
            for rule in self.down
        )

    def _ends(self, row: int, column: int) -> tuple[int, int]:
        """The row and the column at which the next cells begin: where a line is."""
        middle, centre = (sum(places[n : n + 2]) / 2 for places, n in ((self.tops, row), (self.lefts, column)))
        below, right = row + 1, column + 1
        while right < len(self.lefts) - 1 and not _divided(self.down, self.lefts[right], middle):
            right += 1
        while below < len(self.tops) - 1 and not _divided(self.across, self.tops[below], centre):
            below += 1
        return below, right


def _divided(rules: Sequence[Rule], at: float, place: float) -> bool:
    return any(abs(rule.at - at) <= NEAR and rule.reaches(place) for rule in rules)


def _grids(page: pypdfium2.PdfPage) -> Iterator[Grid]:
    """What may be a table, in the order of the page's lines."""
    across, down = map(_joined, _rules(page))
    if len(across) + len(down) > MOST_LINES:
        return
    for rows, columns in _meeting(across, down):
        tops = _places([rule.at for rule in rows] + [end for rule in columns for end in (rule.start, rule.end)])[::-1]
        lefts = _places([rule.at for rule in columns] + [end for rule in rows for end in (rule.start, rule.end)])
        grid = Grid(tops, lefts, rows, columns)
        if len(tops) > 1 and len(lefts) > 2 and grid.size <= MOST_CELLS:
            yield grid


def _within(left: float, bottom: float, right: float, top: float) -> Box:
    """A box without its edges: letters count that reach into it, and those of a line above may touch the edge."""
    return left + EDGE, bottom + EDGE, right - EDGE, top - EDGE


def _rules(page: pypdfium2.PdfPage) -> tuple[list[Rule], list[Rule]]:
    """The level and the upright lines of a page."""
    across: list[Rule] = []
    down: list[Rule] = []

    def add(left: float, bottom: float, right: float, top: float) -> None:
        if top - bottom <= THIN and right - left >= SHORT:
            across.append(Rule((top + bottom) / 2, left, right))
        elif right - left <= THIN and top - bottom >= SHORT:
            down.append(Rule((left + right) / 2, bottom, top))

    for path in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=1):
        for (x, y), (further, higher) in _strokes(path):
            add(min(x, further), min(y, higher), max(x, further), max(y, higher))
        add(*path.get_bounds())  # a thin rectangle is a line, too
        if len(across) + len(down) > MOST_STROKES:
            break
    return across, down


def _strokes(path: pypdfium2.PdfObject) -> Iterator[tuple[Point, Point]]:
    """The straight lines of a path, from point to point of the page."""
    matrix = path.get_matrix()
    begun = last = None
    for number in range(pdfium.FPDFPath_CountSegments(path)):
        segment = pdfium.FPDFPath_GetPathSegment(path, number)
        x, y = ctypes.c_float(), ctypes.c_float()
        if not pdfium.FPDFPathSegment_GetPoint(segment, x, y):
            return
        point = matrix.on_point(x.value, y.value)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            begun = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and last is not None:
            yield last, point
        last = point
        if pdfium.FPDFPathSegment_GetClose(segment) and begun is not None:
            yield point, begun


def _joined(rules: Sequence[Rule]) -> list[Rule]:
    """Lines that go on in each other, or lie upon each other, as one."""
    found: list[Rule] = []
    for beside in _near(sorted(rules, key=lambda rule: rule.at), lambda rule: rule.at):
        last: Rule | None = None
        for rule in sorted(beside, key=lambda one: one.start):
            if last is not None and last.reaches(rule.start):
                last.end = max(last.end, rule.end)
            else:
                found.append(last := Rule(rule.at, rule.start, rule.end))
    return found


def _meeting(across: Sequence[Rule], down: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Level and upright lines that meet, directly or by others."""
    left = {False: list(across), True: list(down)}
    while left[False]:
        met: dict[bool, list[Rule]] = {False: [], True: []}
        new, upright = [left[False].pop(0)], False
        while new:
            met[upright] += new
            upright = not upright
            others = left[upright]
            near = [any(_meet(rule, other) for rule in new) for other in others]
            new = [other for other, is_near in zip(others, near, strict=True) if is_near]
            left[upright] = [other for other, is_near in zip(others, near, strict=True) if not is_near]
        yield met[False], met[True]


def _meet(row: Rule, column: Rule) -> bool:
    return row.reaches(column.at) and column.reaches(row.at)


def _places(values: Sequence[float]) -> list[float]:
    """Places in order, those that are near to each other as one."""
    return [sum(near) / len(near) for near in _near(sorted(values), lambda value: value)]


def _near(ordered: Sequence[T], place: Callable[[T], float]) -> list[list[T]]:
    """Things in their order, those near to a first one together."""
    found: list[list[T]] = []
    for one in ordered:
        if found and place(one) - place(found[-1][0]) <= NEAR:
            found[-1].append(one)
        else:
            found.append([one])
    return found
