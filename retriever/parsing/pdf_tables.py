"""The ruled tables of a PDF's pages: what stands between their lines, as Markdown tables in the page's text.

Knows pypdfium2. A table takes the place of its own words alone: where these are not one piece of the page's text, or
cells do not have each of them once, the text stays as it was. Tables without lines between their columns stay, too.
Coordinates are points, from the lower left corner.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

from retriever.parsing.tables import markdown_table

NEAR = 2.5
"""Lines so near to each other are one, and meet."""
THIN = 3.0
"""A path that is not wider or not higher is a line."""
SHORT = 6.0
"""Shorter lines are letters, bullets and dashes."""
MOST_LINES = 4000
"""Of a page; with more it is a drawing."""
LONGEST = 1000
"""Characters of a cell; in a longer one, the lines divide a page and not a table."""

EDGE = 2.0

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@dataclass(slots=True)
class Rule:
    """A line: at `at` across, from `start` to `end` along."""

    at: float
    start: float
    end: float

    def reaches(self, place: float) -> bool:
        return self.start - NEAR <= place <= self.end + NEAR


def with_tables(
    page: pypdfium2.PdfPage, text_page: pypdfium2.PdfTextPage, text: str, clean: Callable[[str], str]
) -> str:
    """The text of a page with its ruled tables as Markdown, each between blank lines.

    Args:
        text: the page's, as `clean` leaves it.
    """
    for rows, box in _tables(page, text_page):
        words = clean(text_page.get_text_bounded(*box)).strip()
        cells = clean(markdown_table(rows))
        if words and cells and text.count(words) == 1 and _letters(words) == _letters("".join(map("".join, rows))):
            before, after = text.split(words)
            text = "\n\n".join(filter(None, (before.rstrip("\n"), cells, after.lstrip("\n"))))
    return text


def _letters(text: str) -> Counter[str]:
    return Counter(char for char in text if not char.isspace())


def _tables(page: pypdfium2.PdfPage, text_page: pypdfium2.PdfTextPage) -> Iterator[tuple[list[list[str]], Box]]:
    """Rows of cells, and the box of each table."""
    across, down = _rules(page)
    if len(across) + len(down) > MOST_LINES:
        return
    across, down = _joined(across), _joined(down)
    for rows, columns in _meeting(across, down):
        tops = _places([rule.at for rule in rows] + [end for rule in columns for end in (rule.start, rule.end)])[::-1]
        lefts = _places([rule.at for rule in columns] + [end for rule in rows for end in (rule.start, rule.end)])
        if len(tops) < 3 or len(lefts) < 3:
            continue
        cells = _cells(text_page, tops, lefts, rows, columns)
        filled = [sum(map(bool, line)) > 1 for line in cells]
        if sum(filled) > 1 and max(len(cell) for line in cells for cell in line) <= LONGEST:
            yield cells, _within(lefts[0], tops[-1], lefts[-1], tops[0])


def _within(left: float, bottom: float, right: float, top: float) -> Box:
    """A box without its edges: letters count that reach into it, and those of a line above may touch the edge."""
    return left + EDGE, bottom + EDGE, right - EDGE, top - EDGE


def _cells(
    text_page: pypdfium2.PdfTextPage,
    tops: Sequence[float],
    lefts: Sequence[float],
    rows: Sequence[Rule],
    columns: Sequence[Rule],
) -> list[list[str]]:
    """The words of each cell; one over several columns stands in the first, one over several rows at its top."""

    def divided(rules: Sequence[Rule], at: float, place: float) -> bool:
        return any(abs(rule.at - at) <= NEAR and rule.reaches(place) for rule in rules)

    taken: set[tuple[int, int]] = set()
    cells = [[""] * (len(lefts) - 1) for _ in tops[1:]]
    for row in range(len(tops) - 1):
        middle = (tops[row] + tops[row + 1]) / 2
        for column in range(len(lefts) - 1):
            if (row, column) in taken:
                continue
            right, below = column + 1, row + 1
            while right < len(lefts) - 1 and not divided(columns, lefts[right], middle):
                right += 1
            centre = (lefts[column] + lefts[column + 1]) / 2
            while below < len(tops) - 1 and not divided(rows, tops[below], centre):
                below += 1
            taken.update((y, x) for y in range(row, below) for x in range(column, right))
            words = text_page.get_text_bounded(*_within(lefts[column], tops[below], lefts[right], tops[row]))
            cells[row][column] = " ".join(words.split())
    return cells


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
        if len(across) + len(down) > MOST_LINES:
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
    for rule in sorted(rules, key=lambda one: (round(one.at / NEAR), one.start)):
        before = next(
            (one for one in reversed(found) if abs(one.at - rule.at) <= NEAR and one.reaches(rule.start)), None
        )
        if before is None:
            found.append(Rule(rule.at, rule.start, rule.end))
        else:
            before.end = max(before.end, rule.end)
    return found


def _meeting(across: Sequence[Rule], down: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Level and upright lines that meet, directly or by others."""
    left = {id(rule): rule for rule in down}
    free = {id(rule): rule for rule in across}
    while free:
        rows, columns = [free.pop(next(iter(free)))], list[Rule]()
        met = True
        while met:
            new_columns = [rule for rule in left.values() if any(_meet(row, rule) for row in rows)]
            for rule in new_columns:
                del left[id(rule)]
            columns += new_columns
            new_rows = [rule for rule in free.values() if any(_meet(rule, column) for column in columns)]
            for rule in new_rows:
                del free[id(rule)]
            rows += new_rows
            met = bool(new_columns or new_rows)
        yield rows, columns


def _meet(row: Rule, column: Rule) -> bool:
    return row.reaches(column.at) and column.reaches(row.at)


def _places(values: Sequence[float]) -> list[float]:
    """Places in order, those that are near to each other as one."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value - found[-1][0] <= NEAR:
            found[-1].append(value)
        else:
            found.append([value])
    return [sum(near) / len(near) for near in found]
