"""One collection: named documents sharing one embedder and index. Ingest, search, read, delete.

Knows how store, index and embedder work together; safe to use from several threads, and beside other processes that
hold the same collection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retriever import lexical
from retriever.embedder import Embedder
from retriever.errors import EmbedderMismatch, InvalidQuery, UnknownDocument
from retriever.parsing.loading import ReadLimits
from retriever.search import fusion as search
from retriever.search.fusion import Ranked
from retriever.search.index import VectorIndex
from retriever.stores import records, store
from retriever.stores.ingest import Ingest
from retriever.types import (
    Chunk,
    CollectionStats,
    Document,
    DocumentInfo,
    IngestReport,
    Passage,
    Progress,
    SearchMode,
    SourceDocument,
)


class Collection:
    """Got from `Library.create` or `Library.collection`."""

    def __init__(self, folder: Path, name: str, embedder: Embedder, limits: ReadLimits | None = None) -> None:
        self.name = name
        self._embedder = embedder
        self._limits = limits or ReadLimits()
        self._store = store.Store(folder, name)
        self._index = VectorIndex(folder)
        self._index_lock = threading.Lock()

    def ingest(
        self,
        sources: Iterable[SourceDocument],
        *,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
        job: str | None = None,
    ) -> IngestReport:
        """Add or replace documents; a source that is held already, the same, costs no embedding.

        `progress(done, total, name)` is called after each source is stored or has failed; `cancelled()` is asked
        between sources, between runs of chunks and before each commit. `job` names the ingest: run again under that
        name it goes on where its process died, and does not bring back what was deleted since. Sources that cannot be
        read are in the report's failures, the rest go in. A process killed within leaves each document as it was or as
        it is given. Raises UnknownCollection, CollectionBusy, EmbedderMismatch, and whatever the embedder raises; what
        was stored before that stays.
        """
        stop = cancelled or (lambda: False)
        report = Ingest(self._store, self._embedder, self._limits, progress, stop, job).run(sources)
        if report.added or report.replaced:
            self._save_index()
        return report

    def search(
        self,
        question: str,
        top_k: int = 5,
        mode: SearchMode = "hybrid",
        filter: Mapping[str, Any] | None = None,
        *,
        candidates: Sequence[str] = (),
    ) -> list[Passage]:
        """At most `top_k` (1 to 100) passages, best first; none from an empty collection.

        `filter`: metadata keys and the exact values a passage's document must have, all of them. `candidates`:
        ids of chunks that an earlier question of the conversation found, best first; as far as they are still there and
        the filter allows, they are a list of little weight, fused with the others by reciprocal rank in every mode.
        Equal scores are ordered by document id and position. Raises InvalidQuery, UnknownCollection, EmbedderMismatch.
        """
        question = search.checked(question, top_k, mode, filter)
        vector = None
        if mode != "lexical":
            with self._store.read() as connection:
                facts = store.facts(connection)
                empty = records.counts(connection)[1] == 0
            if facts.embedder != self._embedder.name:
                raise EmbedderMismatch(self.name, facts.embedder, self._embedder.name)
            if empty:
                return []
            vector = self._embedder.embed_query(question)
        allowed, parameters = records.allowed_rows(filter) if filter else ("", [])
        lists: list[tuple[float, Ranked]] = []
        with self._index_lock, self._store.read() as connection:
            facts = store.facts(connection)
            if vector is not None:
                if vector.shape != (facts.dimension,):
                    given = f"{self._embedder.name} of dimension {len(vector)}"
                    raise EmbedderMismatch(self.name, f"{facts.embedder} of dimension {facts.dimension}", given)
                self._index.sync(connection, facts)
                rows = None
                if allowed:
                    rows = np.array([row for (row,) in connection.execute(allowed, parameters)], dtype=np.int64)
                lists.append((1.0, self._index.search(vector, search.DEPTH, rows)))
            if mode != "dense":
                lists.append((1.0, lexical.search(connection, question, search.DEPTH, allowed, parameters)))
            if candidates:
                places = [search.place(chunk_id) for chunk_id in candidates]
                known = records.rows_of(connection, places, allowed, parameters)
                lists.append((search.CANDIDATES_WEIGHT, [(row, -float(rank)) for rank, row in enumerate(known)]))
            return search.passages(connection, search.best(connection, lists, top_k))

    def get(self, document_id: str) -> Document:
        """A document with its text. Raises UnknownDocument."""
        with self._store.read() as connection:
            found = records.document(connection, document_id)
        if found is None:
            raise UnknownDocument(document_id, self.name)
        return found

    def chunks(self, document_id: str) -> list[Chunk]:
        """A document's chunks in order. Raises UnknownDocument."""
        with self._store.read() as connection:
            if records.content_hash(connection, document_id) is None:
                raise UnknownDocument(document_id, self.name)
            found = records.chunks(connection, document_id)
        return [Chunk(part.ordinal, part.start, part.end, part.text, part.headings, part.page) for part in found]

    def documents(self, *, limit: int = 100, after: str = "") -> list[DocumentInfo]:
        """At most `limit` (1 to 1000) documents in order of id, those after the id `after`."""
        if not 1 <= limit <= 1000:
            raise InvalidQuery(f"limit must be from 1 to 1000, got {limit}")
        with self._store.read() as connection:
            return records.documents(connection, limit, after)

    def delete(self, document_id: str) -> None:
        """Remove a document and its chunks. Raises UnknownDocument."""
        with self._store.write() as connection:
            if not records.delete(connection, document_id):
                raise UnknownDocument(document_id, self.name)

    def stats(self) -> CollectionStats:
        with self._store.read() as connection:
            facts = store.facts(connection)
            documents, chunks, size = records.counts(connection)
        return CollectionStats(
            facts.name, documents, chunks, size, facts.embedder, facts.dimension, facts.created, facts.generation
        )

    def close(self) -> None:
        """Close the idle database connections; the collection can be used again after it."""
        self._store.close()

    def _save_index(self) -> None:
        with self._index_lock:
            with self._store.read() as connection:
                self._index.sync(connection, store.facts(connection))
            self._index.save()
