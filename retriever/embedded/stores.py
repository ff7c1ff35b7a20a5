"""Collections as folders: `DATA_DIR/collections/NAME/`, and `DATA_DIR/tenants/TENANT/collections/NAME/`.

A collection appears by one rename, complete, and disappears by one rename, so other processes never see half of one.
Knows folders, and which lock is held while a collection is searched; knows no SQL.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from retriever.embedded.exchange import exchanged
from retriever.embedded.latest import Latest
from retriever.embedded.shared_lock import SharedLock
from retriever.embedded.snapshot import EmbeddedSnapshot, EmbeddedTransaction, EmbeddedVectorSnapshot
from retriever.errors import UnknownCollection
from retriever.lexical.lexicon import Documents
from retriever.search.index import VectorIndex
from retriever.stores import store, vectors
from retriever.stores.hidden import shown
from retriever.stores.passing import PassingRows


class EmbeddedStore:
    """One collection's folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._file = store.Store(folder, name)
        self._index = VectorIndex(folder)
        self._index_lock = SharedLock()
        self._saving = threading.Lock()
        self._passing = PassingRows()
        self._documents: Latest[Documents] = Latest()

    @contextlib.contextmanager
    def read(self) -> Iterator[EmbeddedSnapshot]:
        with self._file.read() as connection:
            yield EmbeddedSnapshot(connection)

    @contextlib.contextmanager
    def search(self) -> Iterator[EmbeddedVectorSnapshot]:
        """Searches run beside each other, unless the index has to take in changes first."""
        with self._index_lock.shared(), self._file.read() as connection:
            if self._index.holds(store.facts(connection)):
                yield from self._snapshot(connection)
                return
        with self._index_lock.alone():  # before the snapshot: the index never goes back
            while True:
                inode = self._file.inode()
                with self._file.read() as connection:
                    self._index.sync(connection, store.facts(connection))
                    if self._file.inode() == inode:
                        yield from self._snapshot(connection)
                        return
                self._index.forget()  # the collection was exchanged, so its file may be another's

    def _snapshot(self, connection: sqlite3.Connection) -> Iterator[EmbeddedVectorSnapshot]:
        snapshot = EmbeddedVectorSnapshot(connection, self._index, self._passing, self._documents)
        try:
            yield snapshot
        finally:
            snapshot.settle()

    @contextlib.contextmanager
    def write(self) -> Iterator[EmbeddedTransaction]:
        with self._file.write() as connection:
            transaction = EmbeddedTransaction(connection)
            yield transaction
            self._file.erased |= transaction.erased

    def save_index(self) -> None:
        with self._saving:
            with self._index_lock.alone():
                inode = self._file.inode()
                with self._file.read() as connection:
                    self._index.sync(connection, store.facts(connection))
                if self._file.inode() != inode:
                    self._index.forget()
                    return
                if not self._index.compact():
                    return
            with self._index_lock.shared():  # searches go on while the file is written
                self._index.save(inode)

    def close(self) -> None:
        self._file.close()


class EmbeddedStores:
    """The collections of one tenant."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._root = data_dir / "collections"

    def of(self, tenant: str) -> EmbeddedStores:
        return EmbeddedStores(self._data_dir / "tenants" / tenant)

    def names(self) -> list[str]:
        if not self._root.is_dir():
            return []
        return [folder.name for folder in self._root.iterdir() if self.exists(folder.name)]

    def exists(self, name: str) -> bool:
        return (self._root / name / store.FILE_NAME).is_file()

    def create(
        self,
        name: str,
        embedder: str,
        dimension: int,
        embedder_dtype: str,
        vector_dtype: str = vectors.NEW,
        chunk_size: int | None = None,
    ) -> bool:
        if self.exists(name):
            return False
        building = self._root / f".new-{uuid.uuid4().hex}"
        building.mkdir(parents=True)
        try:
            store.create(building, shown(name), embedder, dimension, embedder_dtype, vector_dtype, chunk_size)
            building.rename(self._root / name)
        except OSError:
            if not self.exists(name):  # else another process was first
                raise
            return False
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return True

    def delete(self, name: str) -> bool:
        deleted = self._root / f".deleted-{uuid.uuid4().hex}"
        try:
            (self._root / name).rename(deleted)
        except FileNotFoundError:
            return False
        shutil.rmtree(deleted, ignore_errors=True)
        return True

    def rename(self, name: str, new: str) -> bool:
        if self.exists(new):
            return False
        try:
            (self._root / name).rename(self._root / new)
        except FileNotFoundError:
            raise UnknownCollection(name) from None
        except OSError:
            if not self.exists(new):  # else another process was first
                raise
            return False
        return True

    @contextlib.contextmanager
    def exchanging(self, name: str) -> Iterator[Callable[[str], None]]:
        file = store.Store(self._root / name, name)

        def exchange(other: str) -> None:
            try:
                exchanged(self._root / name, self._root / other)
            except FileNotFoundError:
                raise UnknownCollection(name) from None

        try:
            with file.write():
                yield exchange
        finally:
            file.close()

    def open(self, name: str) -> EmbeddedStore:
        return EmbeddedStore(self._root / name, name)

    def key(self, name: str) -> Path:
        return self._root / name

    def close(self) -> None:
        """Nothing belongs to no single collection."""
