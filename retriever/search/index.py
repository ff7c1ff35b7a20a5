"""Vectors → nearest chunks: a FAISS inner-product index over the store's unit vectors.

Knows FAISS and chunk rows; knows no text. The index file is a cache of any age: `sync` adds missing rows and drops
deleted ones, so a missing, old or broken file costs time, never a wrong result. (Row numbers are never reused and a
row's vector never changes.)
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.embedder import Vectors
from retriever.moments import Moments
from retriever.stores import records
from retriever.stores.store import CollectionFacts

# faiss has type stubs in some versions only, and those leave out what its Python layer adds
faiss: Any = importlib.import_module("faiss")

log = logging.getLogger(__name__)

FILE_NAME = "vectors.faiss"
_BATCH = 4096


class VectorIndex:
    """Chunk rows by vector. Not safe for several threads at once: the collection holds a lock around it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._uid = ""
        self._generation = -1
        self._index: Any = None
        self._sample: Vectors = np.zeros((0, 0), np.float32)
        self._saved: int | None = None

    def __len__(self) -> int:
        return 0 if self._index is None else int(self._index.ntotal)

    def sync(self, connection: sqlite3.Connection, facts: CollectionFacts) -> None:
        """Make the index hold exactly the chunks that `connection`'s snapshot holds."""
        if (self._uid, self._generation) == (facts.uid, facts.generation):
            return
        if self._index is None or self._uid != facts.uid:
            self._saved = None
            self._index = self._read(facts.dimension) or faiss.IndexIDMap(faiss.IndexFlatIP(facts.dimension))
        stored = np.fromiter((row for (row,) in connection.execute("SELECT row FROM chunks ORDER BY row")), np.int64)
        indexed = self._rows()
        deleted = np.setdiff1d(indexed, stored)
        if len(deleted):
            self._index.remove_ids(deleted)
        self._add(connection, np.setdiff1d(stored, indexed), facts.dimension)
        self._sample = _matrix(records.sample(connection), facts.dimension)
        self._uid, self._generation = facts.uid, facts.generation

    def save(self) -> None:
        """Write the file and put it in place by one rename; does nothing if it is up to date.

        If that fails, as on a full disk, the next process that opens the collection rebuilds the index.
        """
        if self._index is None or self._saved == self._generation:
            return
        temporary = self.path.with_name(f"{FILE_NAME}.{os.getpid()}.tmp")
        try:
            faiss.write_index(self._index, str(temporary))
            os.replace(temporary, self.path)
            self._saved = self._generation
        except (OSError, RuntimeError) as error:
            log.warning("the index %s cannot be saved (%s); it is rebuilt when needed", self.path, error)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

    def search(self, vector: Vectors, depth: int, allowed: NDArray[np.int64] | None = None) -> list[tuple[int, float]]:
        """The `depth` nearest chunks as (row, cosine), best first, ties by row; only among `allowed` rows if given.

        `vector`: float32 [dimension], of length 1.
        """
        if self._index is None or not len(self) or (allowed is not None and not len(allowed)):
            return []
        parameters = None
        if allowed is not None:
            parameters = faiss.SearchParameters(sel=faiss.IDSelectorBatch(allowed))
        scores, rows = self._index.search(vector.reshape(1, -1), min(depth, len(self)), params=parameters)
        nearest = [(int(row), float(score)) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0]
        return sorted(nearest, key=lambda pair: (-pair[1], pair[0]))

    def moments(self, vector: Vectors) -> Moments:
        """Those of the cosines of all chunks, by a sample of them."""
        return Moments.of(self._sample @ vector).scaled(len(self)) if len(self) else Moments()

    def cosines(self, connection: sqlite3.Connection, vector: Vectors, rows: Iterable[int]) -> dict[int, float]:
        """The cosines of some chunks of `connection`'s snapshot."""
        stored = records.vectors_at(connection, rows)
        values = _matrix(list(stored.values()), len(vector)) @ vector
        return dict(zip(stored, values.tolist(), strict=True))

    def _rows(self) -> NDArray[np.int64]:
        if self._index is None or not self._index.ntotal:
            return np.zeros(0, dtype=np.int64)
        rows: NDArray[np.int64] = faiss.vector_to_array(self._index.id_map)
        return rows

    def _add(self, connection: sqlite3.Connection, rows: NDArray[np.int64], dimension: int) -> None:
        assert self._index is not None
        for first in range(0, len(rows), _BATCH):
            batch = rows[first : first + _BATCH]
            bounds = int(batch[0]), int(batch[-1])
            blobs = dict(connection.execute("SELECT row, vector FROM chunks WHERE row BETWEEN ? AND ?", bounds))
            self._index.add_with_ids(_matrix([blobs[int(row)] for row in batch], dimension), batch)

    def _read(self, dimension: int) -> Any:
        """The file's index; None if there is no usable file."""
        try:
            index = faiss.read_index(str(self.path))
        except RuntimeError:
            return None
        return index if isinstance(index, faiss.IndexIDMap) and index.d == dimension else None


def _matrix(blobs: Sequence[bytes], dimension: int) -> Vectors:
    """Stored vectors as float32 [n, dimension]."""
    vectors = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), dimension)
    return np.ascontiguousarray(vectors, dtype=np.float32)
