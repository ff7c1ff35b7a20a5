"""Reads and changes of one collection's SQLite file, as the store's protocol has them.

Delegates to `records`, `postings`, `filters` and the FAISS index; has no SQL of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np

from retriever.embedded.begun import begun
from retriever.embedded.latest import Latest
from retriever.embedding.embedder import Vectors
from retriever.lexical.lexicon import Documents
from retriever.lexical.postings import Tables
from retriever.moments import Moments
from retriever.search.index import VectorIndex
from retriever.stores import filters, originals, records, store
from retriever.stores.passing import PassingRows
from retriever.stores.protocol import Rows
from retriever.stores.records import ChunkRecord, NewDocument
from retriever.stores.store import CollectionFacts
from retriever.types import Document, DocumentInfo


class EmbeddedSnapshot(Tables):
    """What one read transaction sees."""

    def facts(self) -> CollectionFacts:
        return store.facts(self.connection)

    def counts(self) -> tuple[int, int, int]:
        return records.counts(self.connection)

    def content_hash(self, document_id: str) -> str | None:
        return records.content_hash(self.connection, document_id)

    def document(self, document_id: str) -> Document | None:
        return records.document(self.connection, document_id)

    def documents(self, limit: int, after: str) -> list[DocumentInfo]:
        return records.documents(self.connection, limit, after)

    def original(self, document_id: str) -> tuple[int, int] | None:
        return originals.find(self.connection, document_id)

    def original_piece(self, document: int, number: int) -> bytes | None:
        return originals.piece(self.connection, document, number)

    def chunks(self, document_id: str) -> list[ChunkRecord]:
        return records.chunks(self.connection, document_id)

    def chunks_at(self, rows: Iterable[int]) -> dict[int, ChunkRecord]:
        return records.chunks_at(self.connection, rows)

    def rows_of(self, places: Iterable[tuple[str, int]], allowed: Rows | None = None) -> list[int]:
        rows = records.rows_of(self.connection, places)
        return rows if allowed is None else [row for row in rows if np.isin(row, allowed)]

    def titles_of(self, rows: Iterable[int]) -> list[tuple[str, str, object]]:
        return records.titles_of(self.connection, rows)

    def passing(self, where: Mapping[str, Any]) -> Rows:
        query, parameters = filters.allowed_rows(where)
        return np.array([row for (row,) in self.connection.execute(query, parameters)], dtype=np.int64)

    def stored_by(self, job: str) -> set[str]:
        return records.stored_by(self.connection, job)

    def stored_by_jobs(self) -> dict[str, set[str]]:
        return records.stored_by_jobs(self.connection)

    def versions(self) -> dict[str, tuple[str, float]]:
        return records.versions(self.connection)

    def kept_vectors(self, document_id: str) -> list[tuple[bytes, Vectors]]:
        return records.kept_vectors(self.connection, document_id)

    def vectors_by_hash(self, digests: Iterable[bytes]) -> dict[bytes, Vectors]:
        return records.vectors_by_hash(self.connection, digests)


class EmbeddedVectorSnapshot(EmbeddedSnapshot):
    """What one read transaction sees, with the index, which holds the same and which the caller keeps from changes."""

    def __init__(
        self, connection: sqlite3.Connection, index: VectorIndex, passing: PassingRows, kept: Latest[Documents]
    ) -> None:
        super().__init__(connection)
        self._index = index
        self._passing = passing
        self._kept = kept
        self._begun: list[Future[list[int]]] = []

    def passing(self, where: Mapping[str, Any]) -> Rows:
        return self._passing.get(self.facts(), where, super().passing)

    def document_lengths(self) -> Documents:
        return self._kept.get(self.facts(), super().document_lengths)

    def nearest(
        self, vector: Vectors, depth: int, allowed: Rows | None = None
    ) -> Callable[[], list[tuple[int, float]]]:
        """FAISS needs neither the connection nor Python's lock, so it works beside the caller's BM25."""
        near = begun(lambda: self._index.near(vector, depth, allowed))
        self._begun.append(near)

        def nearest() -> list[tuple[int, float]]:
            cosines = self.cosines(vector, near.result())
            return sorted(cosines.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]

        return nearest

    def settle(self) -> None:
        """Wait until nothing reads the index any more."""
        wait(self._begun)

    def cosines(self, vector: Vectors, rows: Iterable[int]) -> dict[int, float]:
        return self._index.cosines(self.connection, vector, rows)

    def moments(self, vector: Vectors) -> Moments:
        return self._index.moments(vector)


class EmbeddedTransaction:
    """Changes within one write transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.erased = False
        """Whether a document was removed or replaced."""

    def facts(self) -> CollectionFacts:
        return store.facts(self.connection)

    def follow(self, facts: CollectionFacts) -> None:
        store.follow(self.connection, facts)

    def put(self, new: NewDocument, vectors: Sequence[Vectors]) -> bool:
        replaced = records.put(self.connection, new, vectors)
        self.erased |= replaced
        return replaced

    def delete(self, document_id: str) -> bool:
        deleted = records.delete(self.connection, document_id)
        self.erased |= deleted
        return deleted

    def stored_by(self, job: str) -> set[str]:
        return records.stored_by(self.connection, job)

    def record_stored(self, job: str, documents: Iterable[str]) -> None:
        records.record_stored(self.connection, job, documents)
