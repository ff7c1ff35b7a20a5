"""The headings of a PDF's pages: by its outline (bookmarks), else by the size of their letters.

Knows pypdfium2. A heading becomes one line of its page that begins with `#`; all other text stays as it is.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

LARGER = 1.15
"""How many times as large as the text's letters those of a heading are, at least, unless they are bold."""
BOLD = 600
"""Weight of a bold font."""
MOST_CHARS = 200
MOST_LINES = 4
"""Lines that one heading may run over."""
MOST_LETTERS, MOST_OF_LINES = 0.3, 0.5
"""If more letters or lines of a document look like headings, sizes say nothing. Short sections have few lines."""

_WORD = re.compile(r"[^\W\d_]{2}")
_MARK = re.compile(r"^(#{1,6})(?=[ \t])", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Style:
    """Of a line's letters."""

    size: float
    """Of its first letter, in half points."""
    bold: bool
    """Whether its first and its last letter are."""


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: Style


def lines_of(page: pypdfium2.PdfTextPage) -> list[Line]:
    """The lines of a page with their styles."""
    found = []
    place = 0
    for raw in page.get_text_range().split("\n"):
        if text := raw.strip():
            first = place + len(raw) - len(raw.lstrip())
            ends = [pdfium.FPDFText_GetCharIndexFromTextIndex(page, at) for at in (first, first + len(text) - 1)]
            if min(ends) >= 0:
                found.append(Line(text, Style(_size(page, ends[0]), all(_bold(page, at) for at in ends))))
        place += len(raw) + 1
    return found


def _size(page: pypdfium2.PdfTextPage, index: int) -> float:
    size = float(pdfium.FPDFText_GetFontSize(page, index))
    matrix = pdfium.FS_MATRIX()
    if pdfium.FPDFText_GetMatrix(page, index, ctypes.byref(matrix)):
        size *= float((matrix.c**2 + matrix.d**2) ** 0.5)
    return round(size * 2) / 2


def _bold(page: pypdfium2.PdfTextPage, index: int) -> bool:
    if pdfium.FPDFText_GetFontWeight(page, index) >= BOLD:
        return True
    name = ctypes.create_string_buffer(200)
    pdfium.FPDFText_GetFontInfo(page, index, name, len(name), None)
    return b"bold" in name.value.lower()


def marked(document: pypdfium2.PdfDocument, texts: Sequence[str], lines: Sequence[Sequence[Line]]) -> list[str]:
    """The texts of all pages with their headings marked. `lines`: the pages' lines, by their own heights."""
    texts = [_MARK.sub(r"\\\1", text) for text in texts]
    outline = _outline(document)
    by_outline = [_with_titles(text, outline.get(number, [])) for number, text in enumerate(texts)]
    if sum(text.count("\n#") + text.startswith("#") for text in by_outline) > 1:
        return by_outline
    levels = _levels(lines)
    return [_with_levels(text, own, levels) for text, own in zip(texts, lines, strict=True)]


def _outline(document: pypdfium2.PdfDocument) -> Mapping[int, list[tuple[int, str]]]:
    """Level (from 1) and title of the bookmarks of each page, in order."""
    found: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    with suppress(pypdfium2.PdfiumError):
        for mark in document.get_toc(max_depth=6):
            place = mark.get_dest()
            if place is not None and (number := place.get_index()) is not None:
                found[number].append((min(mark.level + 1, 6), mark.get_title()))
    return found


def _with_titles(text: str, titles: Sequence[tuple[int, str]]) -> str:
    lines = text.split("\n")
    for level, title in titles:
        wanted = _squeezed(title)
        if not _WORD.search(title):
            continue
        for first in range(len(lines)):
            if lines[first].startswith(("#", "| ")) or not wanted.startswith(_squeezed(lines[first])[:20] or "\0"):
                continue
            last = next(
                (n for n in range(1, MOST_LINES + 1) if _squeezed("".join(lines[first : first + n])) == wanted), 0
            )
            if last:
                lines[first : first + last] = [f"{'#' * level} {' '.join(lines[first : first + last])}"]
                break
    return "\n".join(lines)


def _levels(pages: Sequence[Sequence[Line]]) -> Mapping[Style, int]:
    """The level of each style that headings have; empty if styles say nothing."""
    lines = [line for page in pages for line in page]
    letters: Counter[Style] = Counter()
    for line in lines:
        letters[line.style] += len(line.text)
    if not letters:
        return {}
    body = letters.most_common(1)[0][0]
    styles = {style for style in letters if style.size >= LARGER * body.size}
    styles |= {style for style in letters if style.bold and not body.bold and style.size >= body.size}
    standing_out = [line for line in lines if line.style in styles and _WORD.search(line.text)]
    sizes = sum(len(line.text) for line in standing_out)
    if sizes > MOST_LETTERS * letters.total() or len(standing_out) > MOST_OF_LINES * len(lines):
        return {}
    ordered = sorted({line.style for line in standing_out}, reverse=True)
    return {style: min(level, 6) for level, style in enumerate(ordered, start=1)}


def _with_levels(text: str, own: Sequence[Line], levels: Mapping[Style, int]) -> str:
    known = {_squeezed(line.text): levels.get(line.style, 0) for line in own}
    lines: list[str] = []
    level = joined = 0
    for line in text.split("\n"):
        before, level = level, known.get(_squeezed(line), 0) if _may_be_heading(line) else 0
        if not level:
            lines.append(line)
            continue
        joined = joined + 1 if level == before else 1
        if 1 < joined <= MOST_LINES and len(lines[-1]) + len(line) < MOST_CHARS:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            joined = 1
            lines.append(f"{'#' * level} {line.strip()}")
    return "\n".join(lines)


def _may_be_heading(line: str) -> bool:
    if line.startswith("| "):  # a row of a table
        return False
    return len(line) <= MOST_CHARS and bool(_WORD.search(line)) and not line.rstrip().endswith((".", ",", ";"))


def _squeezed(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())
