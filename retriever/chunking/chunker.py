"""Blocks → chunks: slices of a text of about the same size, cut where its structure allows.

Knows sizes; knows no storage and no model. A chunk's text is exactly `text[start:end]`, chunks do not overlap, and
together they cover all non-blank text in order, but for front matter. Borders lie at line ends; only a line longer
than the maximum is cut inside, after a sentence or at a space where there is one.

Sizes are UTF-8 bytes, a measure of tokens that serves scripts without spaces too: about four bytes a token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from retriever.chunking.blocks import Block, blocks, page_at
from retriever.types import Chunk, TextKind

TARGET_BYTES = 900
"""Size at which a chunk is full: about 220 tokens of English."""
MAX_BYTES = 1200
"""No chunk is larger."""

_SENTENCE_END = re.compile(r"""[.!?;]["'”’»)\]]*\s|[。！？।؟…]""")
_SPACE = re.compile(r"\s")


def chunk(
    text: str,
    kind: TextKind = "markdown",
    pages: Sequence[int] = (),
    *,
    target: int = TARGET_BYTES,
    maximum: int = MAX_BYTES,
) -> list[Chunk]:
    """The chunks of `text`, which is as `text.clean` gives it.

    `pages`: offsets at which pages begin; no chunk crosses one. `target` and `maximum`: UTF-8 bytes; raises
    ValueError unless 16 <= target <= maximum.
    """
    if not 16 <= target <= maximum:
        raise ValueError(f"chunk sizes must satisfy 16 <= target <= maximum, got {target} and {maximum}")
    packer = _Packer(text, pages, target, maximum)
    path: list[tuple[int, str]] = []
    for block in blocks(text, kind, pages):
        if block.kind == "heading":
            path = [entry for entry in path if entry[0] < block.level] + [(block.level, block.heading)]
        headings = tuple(heading for _, heading in path if heading)
        if _size(text, block.start, block.end) <= maximum:
            packer.add(_Piece(block.start, block.end, block.kind == "heading", headings))
        else:
            for start, end in split(text, block, target, maximum):
                packer.add(_Piece(start, end, block.kind == "heading", headings))
    return packer.finish()


def embedding_text(title: str, part: Chunk) -> str:
    """What is embedded for a chunk: the title and headings that it does not show itself, then its text."""
    shown = part.text[:200].casefold()
    names = dict.fromkeys(name for name in (title, *part.heading) if name and name.casefold() not in shown)
    prefix = " > ".join(names)
    return f"{prefix[:300]}\n{part.text}" if prefix else part.text


def split(text: str, block: Block, target: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Spans of at most `maximum` bytes that cover `block`, cut before its borders where that leaves no tiny span."""
    borders = frozenset(block.borders)
    start = position = block.start
    size, best = 0, None
    while position < block.end:
        newline = text.find("\n", position, block.end)
        after = newline + 1 if newline >= 0 else block.end
        line = _size(text, position, after)
        if position in borders and size >= target * 2 // 5:
            best = position
        if position > start and size + line > target:
            cut = best or position
            yield from _stripped(text, start, cut)
            start, position, size, best = cut, cut, 0, None
            continue
        if line > maximum:
            *whole, (start, _) = _split_line(text, position, after, target)
            for left, right in whole:
                yield from _stripped(text, left, right)
            size, best = _size(text, start, after), None
        else:
            size += line
        position = after
    yield from _stripped(text, start, block.end)


def _split_line(text: str, start: int, end: int, target: int) -> list[tuple[int, int]]:
    """Spans of at most `target` bytes that cover `text[start:end]`, cut after sentences or at spaces if possible."""
    spans: list[tuple[int, int]] = []
    while True:
        window = text[start : min(end, start + target)].encode()[:target].decode(errors="ignore")
        if start + len(window) >= end:
            return [*spans, (start, end)]
        half = len(window) // 2
        ends = [match.end() for match in _SENTENCE_END.finditer(window, half)]
        if not ends:
            ends = [match.end() for match in _SPACE.finditer(window, half)]
        cut = ends[-1] if ends else len(window)
        while not ends and cut > half and unicodedata.combining(text[start + cut]):
            cut -= 1
        spans.append((start, start + cut))
        start += cut


def _size(text: str, start: int, end: int) -> int:
    return len(text[start:end].encode())


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span without white space at its end and without blank lines at its start; nothing if it is blank."""
    body = text[start:end].rstrip()
    if body:
        leading = len(body) - len(body.lstrip())
        yield start + body.rfind("\n", 0, leading) + 1, start + len(body)


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    is_heading: bool
    headings: tuple[str, ...]


@dataclass(slots=True)
class _Packer:
    text: str
    pages: Sequence[int]
    target: int
    maximum: int
    current: list[_Piece] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    def add(self, piece: _Piece) -> None:
        if self.current:
            begun = self.current[0].start
            full = self.target
            if all(held.is_heading for held in self.current):
                full = self.maximum  # a heading stays with what it stands above
            elif piece.is_heading and not self.current[-1].is_heading:
                full = 0 if _size(self.text, begun, self.current[-1].end) * 3 >= self.target else self.target
            crosses = page_at(self.pages, begun) != page_at(self.pages, piece.start)
            if crosses or _size(self.text, begun, piece.end) > full:
                self._close(keep_headings=not crosses)
        if self.current and _size(self.text, self.current[0].start, piece.end) > self.maximum:
            self._close(keep_headings=False)
        self.current.append(piece)

    def finish(self) -> list[Chunk]:
        self._close(keep_headings=False)
        return self.chunks

    def _close(self, *, keep_headings: bool) -> None:
        """Make the current pieces a chunk; headings at their end move on to the next one."""
        held = self.current
        self.current = []
        while keep_headings and len(held) > 1 and held[-1].is_heading:
            self.current.insert(0, held.pop())
        if held:
            start, end = held[0].start, held[-1].end
            named = next((piece for piece in held if not piece.is_heading), held[-1])
            self.chunks.append(
                Chunk(
                    ordinal=len(self.chunks),
                    start=start,
                    end=end,
                    text=self.text[start:end],
                    heading=named.headings,
                    page=page_at(self.pages, start),
                )
            )
