"""Passages with the text around them: the chunks before and after, or the section. Knows chunks; knows no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from retriever.errors import UnknownDocument
from retriever.search.fusion import place
from retriever.types import Chunk, Document, Passage

MOST_NEIGHBOURS = 5
SECTION_CHARS = 12_000
"""A section is cut to about so many code points around the passage."""


class Texts(Protocol):
    """A collection's documents. Both methods raise UnknownDocument."""

    def get(self, document_id: str) -> Document: ...

    def chunks(self, document_id: str) -> list[Chunk]: ...


def around(texts: Texts, passages: Sequence[Passage], neighbours: int = 0, section: bool = False) -> list[Passage]:
    """Each passage with the text around it, in one piece, best first.

    No text comes twice: a passage whose chunk a better one has taken in is left out, and ranks go on without it. Ids,
    scores, titles and headings stay those of the passages that were found, and `text ==
    document.text[source_start:source_end]` still holds. A document that was changed or deleted meanwhile gives its
    passages as they were found.

    Args:
        texts: the collection that the passages are from.
        neighbours: how many chunks before and after each passage, 0 to `MOST_NEIGHBOURS`.
        section: also the chunks under the passage's heading, its subsections included, in a row with it: all of them,
            or those nearest to it, up to `SECTION_CHARS`.
    """
    if not (neighbours or section):
        return list(passages)
    documents: dict[str, tuple[str, list[Chunk]] | None] = {}
    taken: set[tuple[str, int]] = set()
    wide: list[Passage] = []
    for passage in passages:
        document_id, at = place(passage.chunk_id)
        if document_id not in documents:
            documents[document_id] = _document(texts, document_id)
        found = documents[document_id]
        if found is None or not _is_there(passage, at, found[1]):
            wide.append(replace(passage, rank=len(wide) + 1))
            continue
        if (document_id, at) in taken:
            continue
        text, chunks = found
        free = [(document_id, ordinal) not in taken for ordinal in range(len(chunks))]
        first, last = _range(chunks, free, at, neighbours, section)
        taken |= {(document_id, ordinal) for ordinal in range(first, last + 1)}
        start, end = chunks[first].start, chunks[last].end
        page = chunks[first].page
        wide.append(
            replace(passage, text=text[start:end], source_start=start, source_end=end, page=page, rank=len(wide) + 1)
        )
    return wide


def _document(texts: Texts, document_id: str) -> tuple[str, list[Chunk]] | None:
    try:
        return texts.get(document_id).text, texts.chunks(document_id)
    except UnknownDocument:
        return None


def _is_there(passage: Passage, at: int, chunks: Sequence[Chunk]) -> bool:
    return 0 <= at < len(chunks) and chunks[at].text == passage.text and chunks[at].start == passage.source_start


def _range(chunks: Sequence[Chunk], free: Sequence[bool], at: int, neighbours: int, section: bool) -> tuple[int, int]:
    """First and last of the chunks around `at`, all of them free."""
    above = chunks[at].heading

    def under(ordinal: int) -> bool:
        other = chunks[ordinal].heading[: len(above)]
        return other[:-1] == above[:-1] and (not above or not _names(other[-1:]).isdisjoint(_names(above[-1:])))

    first = last = at
    more = section
    while more:
        before = first > 0 and free[first - 1] and under(first - 1) and _fits(chunks, first - 1, last)
        first -= before
        after = last + 1 < len(chunks) and free[last + 1] and under(last + 1) and _fits(chunks, first, last + 1)
        last += after
        more = before or after
    while first > max(0, at - neighbours) and free[first - 1]:
        first -= 1
    while last < min(len(chunks) - 1, at + neighbours) and free[last + 1]:
        last += 1
    return first, last


def _names(last: Sequence[str]) -> set[str]:
    """Those of the sections of a chunk, which its last heading joins if they are several."""
    return {name for heading in last for name in heading.split(" / ")}


def _fits(chunks: Sequence[Chunk], first: int, last: int) -> bool:
    return chunks[last].end - chunks[first].start <= SECTION_CHARS
