"""The nouns of the retriever: its input (sources), what it stores (documents, chunks), its output (passages).

Plain frozen dataclasses. Knows no storage, no embedding, no file format. All offsets are code points (Python string
indices) into the document's stored text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

DEFAULT_TENANT = "default"
"""Whose collections lie in the data folder itself."""
SearchMode = Literal["hybrid", "dense", "lexical"]
TextKind = Literal["markdown", "plain"]
"""How the structure of a text is read: `markdown` (headings, lists, fences, tables) or `plain` (paragraphs)."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document to ingest. Set exactly one of `path` (a file) and `text` (Markdown or plain text).

    `name` appears in progress and failures; its ending decides the format of a file. The document's id is `document_id`
    if set, else derived from `name`, else from the text's hash.
    """

    name: str = ""
    path: Path | None = None
    text: str | None = None
    document_id: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values only; search filters compare them."""


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A file as text."""

    title: str
    text: str
    kind: TextKind
    pages: tuple[int, ...] = ()
    """Offset at which each page begins, in order; empty for formats without pages."""
    date: str | None = None
    """The date that the file gives itself, ISO 8601; None if it gives none."""
    navigation: tuple[tuple[int, int], ...] = ()
    """Spans of the text, in order and apart, that were links within the site, where the text does not show links."""


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A stored document without its text."""

    id: str
    name: str
    title: str
    kind: TextKind
    chunks: int
    bytes: int
    """Length of the text in UTF-8."""
    content_hash: str
    metadata: dict[str, Any]
    updated: float
    """Unix time, seconds."""


@dataclass(frozen=True, slots=True)
class Original:
    """The file that a document was read from."""

    size: int
    """In bytes."""
    pieces: Iterator[bytes]
    """Its bytes, once; they end early if the document is deleted meanwhile."""


@dataclass(frozen=True, slots=True)
class Document(DocumentInfo):
    """A stored document with its text, into which chunk, passage and citation offsets point."""

    text: str
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """An indexed slice of a document: `text == document.text[start:end]`."""

    ordinal: int
    """Position among the document's chunks, from 0."""
    start: int
    end: int
    text: str
    heading: tuple[str, ...] = ()
    """Headings above the chunk, outermost first; where a table goes on in the chunk, last its header row."""
    page: int | None = None
    """Number of the chunk's page, from 1."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk retrieved for a question.

    `score`: hybrid = by how many standard deviations it stands out of the collection's chunks, by cosine and BM25
    together; dense = cosine (-1 to 1), lexical = BM25 (above 0); higher is better. `rank` counts from 1. `date` is the
    document's own (`metadata["date"]`), ISO 8601. `text == document.text[source_start:source_end]`.

    `rerank_score`: the reranker's, on its own scale, higher is better; such passages come first, in its order. None
    without a reranker, and for passages that it did not score.
    """

    collection: str
    document_id: str
    chunk_id: str
    title: str
    date: str | None
    page: int | None
    heading: str | None
    text: str
    source_start: int
    source_end: int
    score: float
    rank: int
    rerank_score: float | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, best first; and how far the best candidate stands out: None outside `hybrid` and for one candidate."""

    passages: list[Passage]
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class IngestFailure:
    """A source that was not ingested, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of an ingest: ids of its documents by outcome, in the order of the sources."""

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failures: tuple[IngestFailure, ...] = ()
    cancelled: bool = False
    """True if `cancelled()` stopped it; documents ingested before stay."""
    notes: tuple[str, ...] = ()
    """What one should know of the documents that went in."""

    @property
    def ingested(self) -> int:
        """Documents that are in the collection now: added, replaced and unchanged ones."""
        return len(self.added) + len(self.replaced) + len(self.unchanged)


@dataclass(frozen=True, slots=True)
class CollectionStats:
    name: str
    documents: int
    chunks: int
    bytes: int
    """Total length of the documents' texts in UTF-8."""
    embedder: str
    dimension: int
    created: float
    """Unix time, seconds."""
    generation: int
    """Counts changes to the collection; equal numbers mean equal contents."""
    vector_dtype: str
    """Number format in which the vectors are kept: `float16`, or `float32` in collections of earlier versions."""
    embedder_dtype: str
    """Number format of the embedding model where the collection was created."""


class Progress(Protocol):
    """Called after each source of an ingest: `done` of `total`, the last one being `name`."""

    def __call__(self, done: int, total: int, name: str) -> None: ...
