"""Which chunks are not worth indexing: comments, lone marks, navigation, tables of contents.

Judges by content alone, in any language. A chunk is noise if it has no word besides comments, marks and headings that
the next chunk repeats, if nine tenths of its letters are links within the site, or if its lines are entries of a table
of contents. Links to other sites are references, which people ask for. Code and tables are never noise, nor is a whole
document: if it has nothing but navigation, that is indexed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from retriever.chunking.blocks import blocks, plain_heading
from retriever.types import Chunk, TextKind

NAVIGATION = 0.9
"""Share of letters in links within the site from which a chunk is navigation."""
CONTENTS = 0.8
"""Share of lines with a row of dots and a page number from which a chunk is a table of contents."""

_COMMENT = re.compile(r"^[ \t]*<!--", re.MULTILINE)
"""Begins a comment; inside a line the same signs may be spoken of."""
_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>]{0,2000}>|\{\{[<%][^{}]{0,500}[%>]\}\}|\{%[^{}]{0,500}%\}|\{[^{}\n]{1,200}\}[ \t]*$|&\w{1,30};",
    re.MULTILINE,
)
"""Tags, shortcodes and directives of templates, attributes at a line's end, character references."""
_BULLET = re.compile(r"^[ \t]*(?:o|\d{1,3}[.)])[ \t]*$", re.MULTILINE)
"""A line that is only the bullet or number of a list."""
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\(((?:[^()]|\([^()]*\)){0,2000})\)")
_ELSEWHERE = re.compile(r"[ \t]*<?(?:[a-zA-Z][a-zA-Z0-9+.-]*:|//)")
"""A link's target with scheme or host."""
_ENTRY = re.compile(r"(?:\.{4,}|(?:\. ){4,}\.?|…{2,}|_{4,})[ \t]*(?:\d{1,4}|[ivxlc]{1,7})[ \t]*$")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w")

Span = tuple[int, int]


def worth_indexing(text: str, chunks: Sequence[Chunk], kind: TextKind, navigation: Sequence[Span] = ()) -> list[Chunk]:
    """The chunks of `text` without noise, numbered anew; without anything else, those that are navigation.

    `navigation`: spans of the text, in order and apart, that its reader knows to be links within the site.
    """

    @cache
    def solid() -> list[Span]:
        return [(block.start, block.end) for block in blocks(text, kind) if block.kind in ("code", "table")]

    comments = _comments(text) if kind == "markdown" else []
    kept: list[Chunk] = []
    menus: list[Chunk] = []
    for number, part in enumerate(chunks):
        following = chunks[number + 1].heading if number + 1 < len(chunks) else ()
        noise = _noise(part, kind, following, _within(comments, part), _within(navigation, part))
        if noise is None or _within(solid(), part):
            kept.append(part)
        elif noise == "navigation":
            menus.append(part)
    return [replace(part, ordinal=number) for number, part in enumerate(kept or menus)]


def _noise(
    part: Chunk, kind: TextKind, following: Iterable[str], comments: Sequence[Span], navigation: Sequence[Span]
) -> Literal["blank", "navigation"] | None:
    linked = sum(_letters(part.text[start:end]) for start, end in navigation)
    body = _without(part.text, sorted((*comments, *navigation)))
    headings: list[str] = []
    if kind == "markdown":
        for link in _LINK.finditer(body):
            linked += 0 if _ELSEWHERE.match(link[2]) else _letters(link[1])
        body = _LINK.sub(lambda link: link[1] if _ELSEWHERE.match(link[2]) else "", body)
        headings = [plain_heading(heading) for heading in _HEADING.findall(body)]
        body = _MARKUP.sub("", _HEADING.sub("", body))
    body = _BULLET.sub("", body)
    if linked:
        return "navigation" if linked >= NAVIGATION * (linked + _letters(body)) else None
    if not _WORD.search(body):
        return "blank" if comments or set(headings) <= set(following) else None
    lines = [line for line in body.split("\n") if line.strip()]
    entries = sum(1 for line in lines if _ENTRY.search(line))
    return "navigation" if entries >= max(2.0, CONTENTS * len(lines)) else None


def _comments(text: str) -> list[Span]:
    found: list[Span] = []
    place = 0
    while (opens := _COMMENT.search(text, place)) and (end := text.find("-->", opens.end())) >= 0:
        place = end + len("-->")
        found.append((opens.start(), place))
    return found


def _within(spans: Sequence[Span], part: Chunk) -> list[Span]:
    """The spans that overlap a chunk, as offsets into its text."""
    found = []
    for start, end in spans[bisect_right(spans, part.start, key=lambda span: span[1]) :]:
        if start >= part.end:
            break
        found.append((max(start - part.start, 0), min(end, part.end) - part.start))
    return found


def _without(text: str, spans: Iterable[Span]) -> str:
    kept = []
    place = 0
    for start, end in spans:
        kept.append(text[place:start])
        place = max(place, end)
    return "".join([*kept, text[place:]])


def _letters(text: str) -> int:
    return len(_LETTER.findall(text))
