"""A table of AsciiDoc → a Markdown table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

from retriever.parsing.html_text import REPEATED_CHARS
from retriever.parsing.tables import allow_fields_of, markdown_table

_CELL = re.compile(r"(?:(?<=\s)|^)(?:(\d+)?(?:\.(\d+))?([+*]))?[.<>^]{0,3}[aehlmsdv]?(?<!\\)\||(?<!\\)\|", re.MULTILINE)
_COLUMNS = re.compile(r"""cols\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s,\]]+))""")
_COPIES = re.compile(r"\s*(\d+)\*")
MOST_COLUMNS = 100
MOST_ADDED = 5
"""Cells that a table has besides each that is written, at most: its copies, and the columns and rows that it spans."""


def table(mark: str, body: str, attributes: str, inline: Callable[[str], str]) -> str:
    """The table between two lines of `mark`, such as `|===`, under a line of `attributes`. `inline` reads a cell."""
    if mark == ",===" or "format=csv" in attributes.replace('"', ""):
        allow_fields_of(len(body))
        return markdown_table([[inline(cell) for cell in row] for row in csv.reader(io.StringIO(body))])
    if mark == ":===":
        return markdown_table([[inline(cell) for cell in line.split(":")] for line in body.split("\n")])
    width = _columns(attributes) or _cells_of_first_line(body)
    rows: list[list[str]] = []
    row: list[str] = []
    below: dict[int, tuple[int, str]] = {}  # by column, cells that go on: over how many rows, and their text
    place = 0
    found = list(_CELL.finditer(body))
    spare = MOST_ADDED * max(len(found), MOST_COLUMNS)
    for one, following in zip(found, [*found[1:], None], strict=False):
        text = inline(" ".join(body[one.end() : following.start() if following else None].replace("\\|", "|").split()))
        across, down = (max(1, int((count or "1")[:3])) for count in one.group(1, 2))
        copies, columns = (across, 1) if one[3] == "*" else (1, min(across, width))
        spare -= copies * columns * down - 1
        if spare < 0:
            copies = columns = down = 1
        again = text if len(text) <= REPEATED_CHARS else ""
        for copy in range(copies):
            for column in range(columns):
                while place in below:
                    place = _again(row, below, place)
                if place >= width:
                    rows.append(row)
                    row, place = [], 0
                    while place in below:
                        place = _again(row, below, place)
                if down > 1:
                    below[place] = down - 1, "" if column else again
                row.append("" if column else again if copy else text)
                place += 1
    while place in below:
        place = _again(row, below, place)
    return markdown_table([*rows, row])


def _again(row: list[str], below: dict[int, tuple[int, str]], place: int) -> int:
    """Writes a cell of the rows above once more; the next column."""
    left, text = below.pop(place)
    if left > 1:
        below[place] = left - 1, text
    row.append(text)
    return place + 1


def _columns(attributes: str) -> int:
    found = _COLUMNS.search(attributes)
    if not found:
        return 0
    parts = re.split("[,;]", next(filter(None, found.groups()), ""))
    return min(sum(int(copies[1][:3]) if (copies := _COPIES.match(part)) else 1 for part in parts), MOST_COLUMNS)


def _cells_of_first_line(body: str) -> int:
    first = next((line for line in body.split("\n") if line.strip()), "")
    count = sum(int((one[1] or "1")[:3]) if one[3] else 1 for one in _CELL.finditer(first))
    return max(1, min(count, MOST_COLUMNS))
