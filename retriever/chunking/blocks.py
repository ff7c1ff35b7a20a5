"""Text → blocks: the headings, paragraphs, lists, fences and tables of a text, with their offsets.

Knows Markdown's block structure (markdown-it-py) and plain paragraphs; in plain text with pages, lines that begin with
`#` are headings, and Markdown's tables are tables, as the PDF reader writes them. Knows no sizes, which are the
chunker's work.
Blocks are in order, do not overlap, and cover all non-blank text except Markdown's front matter.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal

from markdown_it import MarkdownIt

from retriever.chunking import front_matter
from retriever.types import TextKind

BlockKind = Literal["heading", "text", "list", "code", "table"]

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MARKDOWN.core.ruler.enableOnly(["normalize", "block"])

MAX_HEADING = 200
"""Characters of a heading, and of a table's header row."""

LONG_TABLE = 64
"""Rows of a table before those that are left out."""
LONG_ROW = 10_000
"""Characters of a row of which the first cells are enough."""
MOST_CELLS = 100

_BAR = re.compile(r"(?<!\\)\|")
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_TABLE = re.compile(r"\| .*\n\|(?: ---+ \|)+$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\s*\{[^{}]*\}\s*$")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)|<[^<>]{1,80}>")

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
}


@dataclass(frozen=True, slots=True)
class Block:
    """`text[start:end]`, from a line start to a line end (without the newline)."""

    start: int
    end: int
    kind: BlockKind
    level: int = 0
    """Heading level 1 to 6; 0 for other kinds."""
    heading: str = ""
    """The heading without its marks; of a table, its header row: `Name | Age`."""


def blocks(text: str, kind: TextKind, pages: Sequence[int] = ()) -> list[Block]:
    """The blocks of `text`; none crosses one of the `pages` starts."""
    if kind == "markdown":
        return list(_markdown_blocks(text))
    return list(_plain_blocks(text, pages))


def plain_heading(raw: str) -> str:
    """A Markdown heading without marks, link targets and trailing `{ #attributes }`; at most 200 characters."""
    heading = _ATTRIBUTES.sub("", raw[:1000].strip().rstrip("#").rstrip())
    heading = _MARKS.sub("", _LINK.sub(r"\1", heading))
    return " ".join(heading.split())[:MAX_HEADING]


def header_row(raw: str) -> str:
    """The cells of a table's first line as `Name | Age`, without marks; whole cells, at most 200 characters."""
    cells = [" ".join(_MARKS.sub("", _LINK.sub(r"\1", cell)).split()) for cell in _BAR.split(raw[:2000].strip())]
    row = " | ".join(cells).strip(" |")
    return row if len(row) <= MAX_HEADING else row[: MAX_HEADING + 1].rpartition(" | ")[0].strip(" |")


def _telling_lines(text: str) -> tuple[list[str], list[int]]:
    """The lines by which a text's blocks are found, and where each begins.

    The parser makes some objects for each cell, hundreds of times the size of a large table. So the rows within long
    tables are left out, and of very long rows the cells after the first ones.
    """
    lines = text.split("\n")
    found: list[str] = []
    starts: list[int] = []
    start = run = 0
    is_wide = False  # whether the cells of the table's rows are cut
    for line, below in pairwise([*lines, ""]):
        run = run + 1 if line.startswith("|") else 0
        divides, heads = _divides(line), run > 0 and _divides(below)
        if heads:
            is_wide = len(line) >= LONG_ROW and _columns(line) == _columns(below) > MOST_CELLS
        elif not run:
            is_wide = False
        inside = run > LONG_TABLE and below.startswith("|") and ">" not in line
        if not inside or divides or heads:
            found.append(_begun(line) if is_wide else line)
            starts.append(start)
        start += len(line) + 1
    return found, starts


def _divides(line: str) -> bool:
    """Whether a line may be the one below a table's header: `|---|:-:|`."""
    return line.startswith("|") and "-" in line and not line.strip("| \t:-")


def _columns(row: str) -> int:
    return len(_BAR.split(row.strip().removeprefix("|").removesuffix("|")))


def _begun(row: str) -> str:
    """The first cells of a row."""
    bars = [bar.start() for bar in islice(_BAR.finditer(row), MOST_CELLS + 1)]
    return row[: bars[-1] + 1]


def _markdown_blocks(text: str) -> Iterator[Block]:
    skipped = front_matter.end(text)
    lines, starts = _telling_lines(text[skipped:])
    starts = [skipped + start for start in starts]
    starts.append(len(text) + 1)
    tokens = _MARKDOWN.parse("\n".join(lines))
    covered = 0
    for index, token in enumerate(tokens):
        if token.level or not token.map or token.nesting < 0:
            continue
        first, last = token.map
        first = max(first, covered)
        if first >= last:
            continue
        if first > covered:
            yield from _paragraphs(text, starts[covered], starts[first] - 1)
        kind = _KINDS.get(token.type, "text")
        for span in trimmed(text, starts[first], starts[last] - 1):
            if kind == "heading":
                yield Block(*span, kind, level=int(token.tag[1:]), heading=plain_heading(tokens[index + 1].content))
            elif kind == "table":
                yield Block(*span, kind, heading=header_row(text[span[0] : span[1]].partition("\n")[0]))
            else:
                yield Block(*span, kind)
        covered = last
    if starts[covered] < len(text):
        yield from _paragraphs(text, starts[covered], len(text))


def _plain_blocks(text: str, pages: Sequence[int]) -> Iterator[Block]:
    bounds = [0, *(page for page in pages if 0 < page < len(text)), len(text)]
    for start, end in pairwise(bounds):
        yield from _paragraphs(text, start, end, headings=bool(pages))


def _paragraphs(text: str, start: int, end: int, *, headings: bool = False) -> Iterator[Block]:
    """Runs of non-blank lines in `text[start:end]`, and, if wanted, its headings."""
    first: int | None = None
    last = position = start
    for line in text[start:end].split("\n"):
        if headings and (heading := _HEADING.match(line)):
            if first is not None:
                yield Block(first, last, "text")
                first = None
            name = " ".join(heading[2].split())[:MAX_HEADING]
            yield Block(position, position + len(line.rstrip()), "heading", level=len(heading[1]), heading=name)
        elif line.strip():
            first = position if first is None else first
            last = position + len(line.rstrip())
        elif first is not None:
            yield _lines(text, first, last, tables=headings)
            first = None
        position += len(line) + 1
    if first is not None:
        yield _lines(text, first, last, tables=headings)


def _lines(text: str, first: int, last: int, *, tables: bool) -> Block:
    """A run of lines, a table if it looks like one."""
    if tables and _TABLE.match(text, first, last):
        return Block(first, last, "table", heading=header_row(text[first:last].partition("\n")[0]))
    return Block(first, last, "text")


def trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """`start, end` without blank lines at the start and white space at the end; nothing if the span is blank."""
    body = text[start:end].rstrip()
    if body:
        leading = len(body) - len(body.lstrip())
        yield start + body.rfind("\n", 0, leading) + 1, start + len(body)


def page_at(pages: Sequence[int], offset: int) -> int | None:
    """Number, from 1, of the page that holds `offset`; None without pages."""
    return bisect_right(pages, offset) if pages else None
