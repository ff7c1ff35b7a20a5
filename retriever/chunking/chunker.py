"""Blocks → chunks: slices of a text of about the same size, cut where its structure allows.

Knows sizes; knows no storage and no model. A chunk's text is exactly `text[start:end]`, chunks do not overlap, and
together they cover all non-blank text in order, except front matter. Borders are line ends; only a line longer than the
maximum is cut inside, after a sentence or at a space if possible.

Sizes are UTF-8 bytes, a measure of tokens that suits scripts without spaces too: about four bytes a token. With an
embedder that counts its own tokens, those count too, so that it reads the whole of each chunk.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from retriever.chunking.blocks import Block, BlockKind, blocks, page_at, trimmed
from retriever.types import Chunk, TextKind

if TYPE_CHECKING:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

TARGET_BYTES = 900
"""Size at which a chunk is full: about 220 tokens of English."""
MAX_BYTES = 1200
"""No chunk is larger."""
TEXT_SHARE = 0.95
"""A chunk's text has at most this share of the tokens that an embedder reads; the title and headings have the rest."""
FULL = 1120
"""Of `MAX_BYTES`, the size at which a chunk measured in tokens is full: small chunks cost more than even ones gain."""
PREFIX_CHARS = 300
HEADER_SHARE = 3
"""A table's header row, which its later parts have as their last heading, takes at most a third of their size."""

MOST_SECTIONS = 4
"""Names of sections in the heading of a chunk of several."""

Measure = Callable[[str], int]
"""The size of a text: its UTF-8 bytes, or more where its tokens count as more."""


def size_in_bytes(text: str) -> int:
    return len(text.encode())


def size_in_tokens(count: Callable[[str], int], most: int, maximum: int = MAX_BYTES) -> Measure:
    """A measure by which a text of `TEXT_SHARE` of `most` tokens has `maximum`, and `TARGET_BYTES` are `FULL`.

    `count`: the number of an embedder's tokens in a text; `most`: those that it reads.
    """
    share = maximum / (most * TEXT_SHARE)
    return lambda text: max(len(text.encode()) * FULL // TARGET_BYTES, math.ceil(count(text) * share))


_SENTENCE_LINE = r"""[.!?:;。！？।؟…]["'”’»)\]]*[^\S\n]*\n"""
_ITEM = r"(?:[-*+]|\d{1,9}[.)])[ \t]"
_STRUCTURE: dict[BlockKind, tuple[str, ...]] = {
    "code": (r"\n\n", r"\n"),
    "list": (rf"\n(?={_ITEM})", rf"\n(?=[ \t]*{_ITEM})", _SENTENCE_LINE, r"\n"),
    "table": (r"\n",),
    "text": (_SENTENCE_LINE, r"\n"),
    "heading": (r"\n",),
}
"""Where a block is cut, the best places first."""
_SENTENCE = r"""[.!?;]["'”’»)\]]*\s|[。！？।؟…]"""


def chunk(
    text: str,
    kind: TextKind = "markdown",
    pages: Sequence[int] = (),
    *,
    target: int = TARGET_BYTES,
    maximum: int = MAX_BYTES,
    measure: Measure = size_in_bytes,
) -> list[Chunk]:
    """The chunks of `text`, which comes from `text.clean`.

    `pages`: offsets at which pages begin; no chunk crosses one. `target` and `maximum`: sizes by `measure`. Raises
    ValueError unless 16 <= target <= maximum.
    """
    if not 16 <= target <= maximum:
        raise ValueError(f"chunk sizes must satisfy 16 <= target <= maximum, got {target} and {maximum}")
    packer = _Packer(text, pages, target, maximum, measure)
    path: list[tuple[int, str]] = []
    for block in blocks(text, kind, pages):
        if block.kind == "heading":
            path = [entry for entry in path if entry[0] < block.level] + [(block.level, block.heading)]
        headings = tuple(heading for _, heading in path if heading)
        header = block.heading if block.kind == "table" else ""
        room = min(measure(header), target // HEADER_SHARE) if header else 0
        for start, end in _split(text, block, target, maximum, room, measure):
            if header and start > block.start:
                packer.add(_Piece(start, end, headings=(*headings, header), room=room))
            else:
                packer.add(_Piece(start, end, block.kind == "heading", headings))
    return packer.finish()


def embedding_text(title: str, part: Chunk, fits: Callable[[str], bool] = lambda _: True) -> str:
    """The text to embed for a chunk: the title and headings that it does not contain, then its text.

    Title and headings are cut after `PREFIX_CHARS` characters, and until the whole `fits`.
    """
    shown = part.text[:200].casefold()
    names = dict.fromkeys(name for name in (title, *part.heading) if name and name.casefold() not in shown)
    prefix = " > ".join(names)[:PREFIX_CHARS]
    while prefix and not fits(f"{prefix}\n{part.text}"):
        prefix = prefix[: len(prefix) * 3 // 4].rsplit(" ", 1)[0].strip()
    return f"{prefix}\n{part.text}" if prefix else part.text


def _split(
    text: str, block: Block, target: int, maximum: int, room: int, measure: Measure
) -> Iterator[tuple[int, int]]:
    """Spans of at most `maximum` that cover `block`: cut at its structure, then at lines, then inside lines.

    A block that is cut leaves `room` of the size free for a header.
    """
    if measure(text[block.start : block.end]) <= maximum:
        yield block.start, block.end
        return
    target, maximum = target - room, maximum - room
    lines = _splitter(_STRUCTURE[block.kind], target, measure)
    words = _splitter(_within_line(), target, measure)
    start = position = block.start
    for run in lines.split_text(text[block.start : block.end]):
        for piece in words.split_text(run) if measure(run) > maximum else [run]:
            size = measure(text[start:position])  # a short sentence before a long one joins the long one's first part
            if size * 5 >= target * 2 or size + measure(piece) > maximum:
                yield from trimmed(text, start, position)
                start = position
            position += len(piece)
        yield from trimmed(text, start, position)
        start = position


@lru_cache
def _within_line() -> tuple[str, ...]:
    """Where a line is cut: after a sentence, after a space, between characters of which the second does not combine."""
    marks = "".join(char for char in map(chr, range(0x20000)) if unicodedata.combining(char))
    char = f"[^{marks}][{marks}]*+"
    return _SENTENCE, r"\s", f"(?:{char}){{32}}", char, ""


@lru_cache
def _splitter(separators: tuple[str, ...], size: int, measure: Measure) -> RecursiveCharacterTextSplitter:
    """Cuts a text after the first of these patterns that occurs in it; its pieces joined are the text."""
    from langchain_text_splitters.character import RecursiveCharacterTextSplitter  # not before it is needed: 0.2 s

    return RecursiveCharacterTextSplitter(
        list(separators),
        keep_separator="end",
        is_separator_regex=True,
        chunk_size=size,
        chunk_overlap=0,
        length_function=measure,
        strip_whitespace=False,
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    is_heading: bool = False
    headings: tuple[str, ...] = ()
    room: int = 0
    """Size of the table's header row, which stands above in an earlier piece."""


@dataclass(slots=True)
class _Packer:
    text: str
    pages: Sequence[int]
    target: int
    maximum: int
    measure: Measure
    current: list[_Piece] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    def add(self, piece: _Piece) -> None:
        if self.current:
            first, last = self.current[0], self.current[-1]
            full = self.target
            if all(heading.is_heading for heading in self.current):
                full = self.maximum  # a heading stays with what it stands above
            elif piece.is_heading and not last.is_heading and self._size(first, last) * 3 >= full:
                full = 0
            new_page = page_at(self.pages, first.start) != page_at(self.pages, piece.start)
            if new_page or self._size(first, piece) > full:
                self._close(keep_headings=not new_page)
        if self.current and self._size(self.current[0], piece) > self.maximum:
            self._close(keep_headings=False)
        self.current.append(piece)

    def finish(self) -> list[Chunk]:
        self._close(keep_headings=False)
        return self.chunks

    def _size(self, first: _Piece, last: _Piece) -> int:
        return self.measure(self.text[first.start : last.end]) + first.room

    def _close(self, *, keep_headings: bool) -> None:
        """Make the current pieces a chunk; headings at their end move on to the next one."""
        pieces = self.current
        self.current = []
        while keep_headings and len(pieces) > 1 and pieces[-1].is_heading:
            self.current.insert(0, pieces.pop())
        if pieces:
            start, end = pieces[0].start, pieces[-1].end
            self.chunks.append(
                Chunk(
                    ordinal=len(self.chunks),
                    start=start,
                    end=end,
                    text=self.text[start:end],
                    heading=_headings(pieces),
                    page=page_at(self.pages, start),
                )
            )


def _headings(pieces: Sequence[_Piece]) -> tuple[str, ...]:
    """Those above the first text; of several sections, those above all of them and then theirs, as one, with the header
    row of the table that goes on at the beginning.

    A chunk of two short sections named after the first one would pass the second one's text for the first one's.
    """
    named = [piece.headings for piece in pieces if not piece.is_heading] or [pieces[-1].headings]
    shared = tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*named, strict=False)))
    sections = list(dict.fromkeys(names[len(shared)] for names in named if len(names) > len(shared)))
    header = named[0][-1:] if pieces[0].room else ()
    if named[0] == shared or named[0] == (*shared, *header):
        return named[0]
    more = " / …" if len(sections) > MOST_SECTIONS else ""
    return (*shared, " / ".join(sections[:MOST_SECTIONS]) + more, *header)
