"""What a store of collections does; `embedded` (SQLite and FAISS) and `postgres` (PostgreSQL, pgvector) implement it.

`Stores` has collections by name; a `Store` is one collection's; a `Snapshot` reads it, a `Transaction` changes it. Rows
number a collection's chunks: a later chunk has a higher row, and a row is never used again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retriever.embedding.embedder import Vectors
from retriever.lexical.lexicon import Lexicon
from retriever.moments import Moments
from retriever.stores import vectors
from retriever.stores.records import ChunkRecord, NewDocument
from retriever.stores.store import CollectionFacts
from retriever.types import Document, DocumentInfo

Rows = NDArray[np.int64]
"""int64 [n]: rows of chunks."""


class Snapshot(Lexicon, Protocol):
    """One state of a collection: everything read from it fits together."""

    def facts(self) -> CollectionFacts: ...

    def counts(self) -> tuple[int, int, int]:
        """Documents, chunks, bytes of text."""
        ...

    def content_hash(self, document_id: str) -> str | None:
        """The stored document's content hash; None if there is no such document."""
        ...

    def document(self, document_id: str) -> Document | None: ...

    def documents(self, limit: int, after: str) -> list[DocumentInfo]:
        """At most `limit` documents with ids above `after`, ordered by id, code point by code point."""
        ...

    def original(self, document_id: str) -> tuple[int, int] | None:
        """The row of a document and the bytes of the file that is kept with it; None if none is kept."""
        ...

    def original_piece(self, document: int, number: int) -> bytes | None:
        """A piece of the file of the document of that row, from 0; None behind the last one."""
        ...

    def chunks(self, document_id: str) -> list[ChunkRecord]:
        """A document's chunks in order; empty if there is no such document."""
        ...

    def chunks_at(self, rows: Iterable[int]) -> dict[int, ChunkRecord]:
        """The chunks at `rows`, by row; rows without a chunk are left out."""
        ...

    def rows_of(self, places: Iterable[tuple[str, int]], allowed: Rows | None = None) -> list[int]:
        """Rows of the chunks at (document id, ordinal), in that order; missing ones and those not allowed left out."""
        ...

    def titles_of(self, rows: Iterable[int]) -> list[tuple[str, str, object]]:
        """(id, title, `metadata["date"]`) of the documents that the chunks at `rows` belong to, each once."""
        ...

    def passing(self, where: Mapping[str, Any]) -> Rows:
        """Rows of the chunks whose document passes a filter (`filters` says which). Raises InvalidQuery."""
        ...

    def stored_by(self, job: str) -> set[str]:
        """Marks of the documents that the ingest `job` has stored so far; only the last such ingest is recorded."""
        ...

    def stored_by_jobs(self) -> dict[str, set[str]]:
        """What is recorded, by ingest."""
        ...

    def versions(self) -> dict[str, tuple[str, float]]:
        """Content hash and time of the last change of every document, by id, in the order of ids."""
        ...

    def kept_vectors(self, document_id: str) -> list[tuple[bytes, Vectors]]:
        """For each chunk of a document, in order, the digest of its embedded text and its vector, float32 [dimension].

        A vector has the numbers that are kept, so that another collection can keep the same.
        """
        ...

    def vectors_by_hash(self, digests: Iterable[bytes]) -> dict[bytes, Vectors]:
        """Vectors, float32 [dimension], already stored for texts of these digests."""
        ...


class VectorSnapshot(Snapshot, Protocol):
    """A snapshot that is searched by vectors, float32 [dimension], of length 1."""

    def nearest(
        self, vector: Vectors, depth: int, allowed: Rows | None = None
    ) -> Callable[[], list[tuple[int, float]]]:
        """Begin to look for the `depth` nearest chunks; only among `allowed` rows if given.

        The call waits for them: (row, cosine), best first, ties by row.
        """
        ...

    def cosines(self, vector: Vectors, rows: Iterable[int]) -> dict[int, float]:
        """The cosines of some chunks, by row."""
        ...

    def moments(self, vector: Vectors) -> Moments:
        """Those of the cosines of all chunks, by a sample of them that depends on their texts alone."""
        ...


class Transaction(Protocol):
    """Changes that are stored together or not at all."""

    def facts(self) -> CollectionFacts: ...

    def follow(self, facts: CollectionFacts) -> None:
        """Take over from a collection: when it was created, and its generation, which goes on from there."""
        ...

    def put(self, new: NewDocument, vectors: Sequence[Vectors]) -> bool:
        """Store `new`, with a vector for each chunk, in place of the document of its id; True if there was one."""
        ...

    def delete(self, document_id: str) -> bool:
        """Remove a document with its chunks; False if there is none."""
        ...

    def stored_by(self, job: str) -> set[str]: ...

    def record_stored(self, job: str, documents: Iterable[str]) -> None:
        """Record the marks of documents that an ingest stores; records of other ingests go."""
        ...


class Store(Protocol):
    """One collection; safe to use from several threads and beside other processes."""

    @property
    def name(self) -> str: ...

    def read(self) -> AbstractContextManager[Snapshot]:
        """One snapshot. Raises UnknownCollection, StoreUnavailable."""
        ...

    def search(self) -> AbstractContextManager[VectorSnapshot]:
        """One snapshot with the index of its vectors. Raises as `read`."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """One atomic change, which adds one to the generation; an exception undoes it.

        Raises UnknownCollection, CollectionBusy, DiskFull, StoreUnavailable.
        """
        ...

    def save_index(self) -> None:
        """Called after an ingest: bring the index of the vectors up to date and keep it."""
        ...

    def close(self) -> None:
        """Close what is idle; the store stays usable."""
        ...


class Stores(Protocol):
    """Collections by name, those of one tenant. Names have been checked."""

    def of(self, tenant: str) -> Stores:
        """Those of another tenant, at the same place."""
        ...

    def names(self) -> list[str]:
        """All collections, in no order."""
        ...

    def exists(self, name: str) -> bool: ...

    def create(
        self,
        name: str,
        embedder: str,
        dimension: int,
        embedder_dtype: str,
        vector_dtype: str = vectors.NEW,
        chunk_size: int | None = None,
    ) -> bool:
        """Create an empty collection; False if there is one of that name, or another process was first."""
        ...

    def rename(self, name: str, new: str) -> bool:
        """Give a collection another name; False if there is one of that name. Raises UnknownCollection.

        A change under way is stored; one that begins later under the old name raises UnknownCollection.
        """
        ...

    def exchanging(self, name: str) -> AbstractContextManager[Callable[[str], None]]:
        """Keeps changes of a collection waiting. Gives a function that exchanges it with the one of another name.

        Readers find one or the other, and changes that waited go into the other. Nothing else may use the other one
        meanwhile. Raises UnknownCollection, CollectionBusy, StoreUnavailable.
        """
        ...

    def delete(self, name: str) -> bool:
        """Remove a collection with all its documents; False if there is none of that name."""
        ...

    def open(self, name: str) -> Store: ...

    def key(self, name: str) -> Hashable:
        """Tells a collection from all others, those of other tenants and places included."""
        ...

    def close(self) -> None:
        """Close what is idle and belongs to no single collection."""
        ...
