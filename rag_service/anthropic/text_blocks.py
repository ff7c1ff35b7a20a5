"""An answer's text as content blocks: one, or with citations one for each sentence.

Anthropic's format cites for whole blocks. What an answer cites is known only at its end, when a stream has sent its
text. So the blocks are the answer's sentences, which are known as they come. Whole responses have the same blocks.

Knows texts and citations; knows no events.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from rag_service.contract.answer import Answer, CitationOut
from workers.support.passages.sentences import sentences

Span = tuple[int, int]
Document = tuple[str, str]
"""Its collection and its id."""

_UNDECIDED = re.compile(r"\n(?:\d*[.)]?|[\"'(“„«‘])\Z")
"""A line end of which it is not known yet whether a sentence goes on after it."""


class TextBlocks:
    """Splits a text into blocks while it comes. The blocks together are the text.

    Attributes:
        text: as far as it has come.

    Args:
        by_sentence: whether each sentence is a block, with the white space after it; else all is one block.
    """

    def __init__(self, by_sentence: bool) -> None:
        self._by_sentence = by_sentence
        self.text = ""
        self._starts: list[int] = []
        self._given = 0
        self._line = 0
        """Where the line begins in which the last block does."""

    @property
    def spans(self) -> list[Span]:
        """(start, end) of the blocks, in code points of the text."""
        return list(itertools.pairwise([*self._starts, len(self.text)]))

    def push(self, text: str, last: bool = False) -> list[tuple[int, str]]:
        """Add a text. Returns what of the blocks became certain: (index of the block, its next piece).

        Args:
            last: whether no more text comes.
        """
        self.text += text
        undecided = None if last or not self._by_sentence else _UNDECIDED.search(self.text, self._line)
        decided = undecided.start() if undecided else len(self.text)
        if decided and not self._starts:
            self._starts.append(0)
        if self._by_sentence and self._starts:
            self._split(decided)
        pieces = []
        for index, (start, end) in enumerate(self.spans):
            piece = self.text[max(start, self._given) : min(end, decided)]
            if piece:
                pieces.append((index, piece))
        self._given = max(self._given, decided)
        return pieces

    def _split(self, decided: int) -> None:
        """Begin blocks where sentences begin; white space before the first one is in its block."""
        line = self._line
        for start, _ in sentences(self.text[line:]):
            begins = line + start
            if begins < decided and self.text[self._starts[-1] : begins].strip():
                self._starts.append(begins)
                self._line = self.text.rfind("\n", 0, begins) + 1


def documents(answer: Answer) -> list[Document]:
    """The documents of an answer's passages, best first: citations count them."""
    return list(dict.fromkeys((passage.collection, passage.document_id) for passage in answer.passages))


def cited(answer: Answer, spans: Sequence[Span]) -> list[list[dict[str, Any]]]:
    """For each block of an answer's text, its citations as `char_location`.

    Offsets are code points of the document's text. Where a copied span goes over several blocks, each block cites its
    own part of it.
    """
    return [_of_block(answer, span) for span in spans]


def _of_block(answer: Answer, span: Span) -> list[dict[str, Any]]:
    order = {document: index for index, document in enumerate(documents(answer))}
    titles = {(passage.collection, passage.document_id): passage.title for passage in answer.passages}
    found: list[dict[str, Any]] = []
    for citation in answer.citations or ():
        document = (citation.collection, citation.document_id)
        place = _source(answer, citation, span)
        if place is None or document not in order:
            continue
        start, end, text = place
        found.append(
            {
                "type": "char_location",
                "cited_text": text,
                "document_index": order[document],
                "document_title": titles[document],
                "file_id": None,
                "start_char_index": start,
                "end_char_index": end,
            }
        )
    return [one for index, one in enumerate(found) if one not in found[:index]]


def _source(answer: Answer, citation: CitationOut, span: Span) -> tuple[int, int, str] | None:
    """Where the document states what a block has of a citation, and its words; None where it has nothing of it."""
    whole = answer.answer or ""
    start, end = max(citation.answer_start, span[0]), min(citation.answer_end, span[1])
    text = whole[start:end] if start < end else ""
    if not any(letter.isalnum() for letter in text):
        return None
    if citation.kind == "copied":  # equal text on both sides
        start += len(text) - len(text.lstrip())
        text = text.strip()
        at = citation.source_start + start - citation.answer_start
        return at, at + len(text), text
    for passage in answer.passages:
        held = passage.source_start <= citation.source_start and citation.source_end <= passage.source_end
        if held and (passage.collection, passage.chunk_id) == (citation.collection, citation.chunk_id):
            at = passage.source_start
            return (
                citation.source_start,
                citation.source_end,
                passage.text[citation.source_start - at : citation.source_end - at],
            )
    return None
