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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.embedding.embedder import Vectors
from retriever.lexical import postings
from retriever.moments import Moments
from retriever.stores import records, store
from retriever.stores.store import CollectionFacts

# faiss has type stubs in some versions only, and those leave out what its Python layer adds
faiss: Any = importlib.import_module("faiss")

log = logging.getLogger(__name__)

FILE_NAME = "vectors.faiss"
FEW = 1024
"""So many changes are kept beside the file, and so many deleted chunks in the index."""
FEW_SHARE = 0.05
MORE = 32
"""Chunks beyond those that are wanted, of which the exact cosine is compared too."""


class VectorIndex:
    """Chunk rows by vector. Several threads may search; while one calls `sync` or `compact`, no other may do anything.

    Vectors are held in the collection's own number format. In half precision they are not quite of length 1, so more
    chunks than wanted are found and their cosines taken from the store.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._uid = ""
        self._generation = -1
        self._index: Any = None
        self._sample: Vectors = np.zeros((0, 0), np.float32)
        self._sampled: list[int] = []
        self._last = 0
        self._gone: set[int] = set()
        self._changed = 0

    def __len__(self) -> int:
        return 0 if self._index is None else int(self._index.ntotal) - len(self._gone)

    def holds(self, facts: CollectionFacts) -> bool:
        """Whether it holds exactly the chunks of this state of the collection."""
        return (self._uid, self._generation) == (facts.uid, facts.generation)

    def sync(self, connection: sqlite3.Connection, facts: CollectionFacts) -> None:
        """Make the index hold exactly the chunks that `connection`'s snapshot holds."""
        if self.holds(facts):
            return
        if self._index is None or self._uid != facts.uid:
            self._open(connection, facts)
        self._add(connection)
        if len(self) != postings.totals(connection)[0]:
            self._drop(connection)
        sampled = records.sample(connection)
        if sampled != self._sampled or self._uid != facts.uid:
            self._sampled, self._sample = sampled, records.vectors_at(connection, sampled)[1]
        self._uid, self._generation = facts.uid, facts.generation

    def compact(self) -> bool:
        """Drop deleted chunks before `save`; False if the file may stay as it is.

        It may while few chunks have changed, because `sync` adds and drops them in a moment.
        """
        if self._index is None or self._changed <= max(FEW, len(self) * FEW_SHARE):
            return False
        self._compact()
        return True

    def forget(self) -> None:
        """Begin anew: what was read may be another collection's."""
        self._index, self._uid, self._generation = None, "", -1

    def save(self, inode: int) -> None:
        """Write the file and put it in place by one rename; searches may go on.

        `inode`: of the collection's file. If another collection has the folder's name by now, its index stays.
        If writing fails, as on a full disk, the next process that opens the collection rebuilds the index.
        """
        for left in self.path.parent.glob(f"{FILE_NAME}.*.tmp"):  # of processes that were killed; those alive retry
            left.unlink(missing_ok=True)
        temporary = self.path.with_name(f"{FILE_NAME}.{os.getpid()}.tmp")
        try:
            faiss.write_index(self._index, str(temporary))
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:  # the folder itself and not its name, which another one may get at any moment
                if os.stat(store.FILE_NAME, dir_fd=folder).st_ino == inode:
                    os.replace(temporary.absolute(), FILE_NAME, dst_dir_fd=folder)
                    self._changed = 0
            finally:
                os.close(folder)
        except (OSError, RuntimeError) as error:
            log.warning("the index %s cannot be saved (%s); it is rebuilt when needed", self.path, error)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

    def near(self, vector: Vectors, depth: int, allowed: NDArray[np.int64] | None = None) -> list[int]:
        """Rows of more than `depth` chunks, the `depth` nearest among them; only `allowed` rows if given.

        `vector`: float32 [dimension], of length 1.
        """
        if self._index is None or not len(self) or (allowed is not None and not len(allowed)):
            return []
        parameters = None
        if allowed is not None:
            bits = _bits(allowed)
            parameters = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))
        wanted = min(depth + MORE + len(self._gone), int(self._index.ntotal))
        with _one_thread():
            _, rows = self._index.search(vector.reshape(1, -1), wanted, params=parameters)
        return [row for row in rows[0].tolist() if row >= 0]

    def moments(self, vector: Vectors) -> Moments:
        """Those of the cosines of all chunks, by a sample of them."""
        return Moments.of(self._sample @ vector).scaled(len(self)) if len(self) else Moments()

    def cosines(self, connection: sqlite3.Connection, vector: Vectors, rows: Iterable[int]) -> dict[int, float]:
        """The cosines of some chunks of `connection`'s snapshot."""
        stored, vectors = records.vectors_at(connection, rows)
        values = (vectors * vector).sum(
            axis=1
        )  # a chunk's is the same whatever the others are, which `@` does not keep
        return dict(zip(stored, values.tolist(), strict=True))

    def _open(self, connection: sqlite3.Connection, facts: CollectionFacts) -> None:
        """The file's index without the chunks that are gone; an empty one if there is no usable file."""
        self._index = self._read(facts) or _empty(facts)
        rows = faiss.vector_to_array(self._index.id_map) if self._index.ntotal else np.zeros(0, np.int64)
        self._last = int(rows.max(initial=0))
        self._gone, self._changed = set(), 0
        stored = _rows(connection)
        lacks = len(np.setdiff1d(stored[stored <= self._last], rows)) > 0
        if lacks or len(np.unique(rows)) != len(rows):  # not a file that rows were only added to and dropped from
            self._index, self._last = _empty(facts), 0

    def _add(self, connection: sqlite3.Connection) -> None:
        """Add the chunks that are newer than the newest one in the index: rows only grow."""
        for rows, vectors in records.vectors_after(connection, self._last):
            self._index.add_with_ids(vectors, np.array(rows, np.int64))
            self._last = rows[-1]
            self._changed += len(rows)

    def _drop(self, connection: sqlite3.Connection) -> None:
        """Leave out the chunks that are no longer stored."""
        indexed = faiss.vector_to_array(self._index.id_map)
        stored = np.zeros(self._last + 1, dtype=bool)
        stored[_rows(connection)] = True
        gone = set(indexed[~stored[indexed]].tolist())
        self._changed += len(gone - self._gone)
        self._gone = gone
        if len(gone) > FEW:
            self._compact()

    def _compact(self) -> None:
        if self._gone:
            self._index.remove_ids(np.array(sorted(self._gone), np.int64))
            self._gone = set()

    def _read(self, facts: CollectionFacts) -> Any:
        """The file's index; None if there is no usable file."""
        try:
            index = faiss.read_index(str(self.path))
        except RuntimeError:
            return None
        empty = _empty(facts)
        if not isinstance(index, faiss.IndexIDMap) or index.d != empty.d:
            return None
        same = type(faiss.downcast_index(index.index)) is type(faiss.downcast_index(empty.index))
        return index if same else None


def _empty(facts: CollectionFacts) -> Any:
    """An index without chunks for vectors of the collection's number format."""
    if facts.vector_dtype == "float16":
        kind, metric = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        return faiss.IndexIDMap(faiss.IndexScalarQuantizer(facts.dimension, kind, metric))
    return faiss.IndexIDMap(faiss.IndexFlatIP(facts.dimension))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """For the search of one vector, which FAISS never divides.

    Its other threads would only wait, and on busy cores the search for them: 25 ms instead of 3 at 10,000 chunks.
    """
    usual = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(usual)


def _bits(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """A bit for every row up to the highest, set for those in `rows`, the lowest bit first."""
    chosen = np.zeros(int(rows.max()) + 1, dtype=bool)
    chosen[rows] = True
    return np.packbits(chosen, bitorder="little")


def _rows(connection: sqlite3.Connection) -> NDArray[np.int64]:
    """All rows, in no order; as one text, which is read in half the time of single values."""
    (listed,) = connection.execute(f"SELECT group_concat(row) FROM ({records.ALL_ROWS})").fetchone()
    return np.fromstring(listed or "", dtype=np.int64, sep=",")
