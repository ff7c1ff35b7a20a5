"""One collection's SQLite file: connections, transactions, schema.

Knows files, locks and versions; `records` has the statements for documents and chunks, `postings` those for words. The
database is the only truth: it holds every vector, so a vector index can be rebuilt from it.

One process may read while another writes (WAL). Every change adds one to the generation; other processes compare it to
see that their copy is out of date.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retriever.errors import CollectionBusy, DiskFull, RetrieverError, UnknownCollection
from retriever.lexical import postings
from retriever.stores import migration, vectors

log = logging.getLogger(__name__)

SCHEMA_VERSION = 4
BUSY_SECONDS = 30.0
WRITE_CACHE_KB = 65_536
"""Memory for pages of a connection that writes, as far as it has used them. Without room for the lexical index's last
blocks, each change reads and writes them again: fifteen times the bytes read and five times those written."""
_WRITE = "BEGIN IMMEDIATE"
ROOM_BYTES = 1 << 20
"""A disk with less free space counts as full: opening a collection takes some ten pages."""
FILE_NAME = "collection.sqlite3"

_SCHEMA = f"""
CREATE TABLE collection (
    uid TEXT NOT NULL, name TEXT NOT NULL, embedder TEXT NOT NULL, dimension INTEGER NOT NULL,
    created REAL NOT NULL, generation INTEGER NOT NULL, vector_dtype TEXT NOT NULL, embedder_dtype TEXT NOT NULL,
    chunk_size INTEGER
);
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, title TEXT NOT NULL,
    kind TEXT NOT NULL, bytes INTEGER NOT NULL, content_hash TEXT NOT NULL,
    metadata TEXT NOT NULL, pages TEXT NOT NULL, updated REAL NOT NULL
);
CREATE INDEX documents_bytes ON documents(bytes);
{migration.TEXTS}
{migration.METADATA}
-- AUTOINCREMENT: a chunk's row is never reused, so a row in an old index is this chunk or deleted, never another one
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, page INTEGER, headings TEXT NOT NULL,
    text TEXT NOT NULL, embedded_hash BLOB NOT NULL, vector BLOB NOT NULL, UNIQUE (document, ordinal)
);
CREATE INDEX chunks_embedded_hash ON chunks(embedded_hash);
{postings.SCHEMA};
PRAGMA user_version = {SCHEMA_VERSION};
"""


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """A collection's fixed properties, and its generation."""

    uid: str
    """Distinguishes a new collection from a deleted one of the same name, and stays when it is renamed."""
    embedder: str
    dimension: int
    created: float
    generation: int
    vector_dtype: str
    """In which its vectors are kept."""
    embedder_dtype: str
    """In which the embedding model ran where the collection was created."""
    chunk_size: int | None = None
    """UTF-8 bytes at which a chunk is full; None for the chunker's own."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What two collections share if each can take the other's chunks and vectors."""
        return self.embedder, self.dimension, self.vector_dtype, self.embedder_dtype, self.chunk_size


def create(
    folder: Path,
    name: str,
    embedder: str,
    dimension: int,
    embedder_dtype: str = "float32",
    vector_dtype: str = vectors.NEW,
    chunk_size: int | None = None,
) -> None:
    """Create an empty collection in `folder`, which exists and is empty.

    `name` is kept for people who look into the file: a collection is called what its folder is called.
    """
    connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript("BEGIN;" + _SCHEMA)
        connection.execute(
            "INSERT INTO collection VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
            (uuid.uuid4().hex, name, embedder, dimension, time.time(), vector_dtype, embedder_dtype, chunk_size),
        )
        connection.execute("COMMIT")


class Store:
    """Transactions on one collection's file; safe to use from several threads and processes."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.path = folder / FILE_NAME
        self._idle: list[tuple[int, sqlite3.Connection]] = []
        self._lock = threading.Lock()
        self.erased = False
        """A change removed something that the write-ahead log may still have."""

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One snapshot: all reads within it see the same state. Raises UnknownCollection."""
        with self._transaction("BEGIN") as connection:
            facts(connection)  # a deferred snapshot begins at the first read
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One atomic change, which adds one to the generation; an exception undoes it.

        Raises UnknownCollection, DiskFull, or CollectionBusy when another process writes for longer than
        `BUSY_SECONDS`.
        """
        with self._transaction(_WRITE) as connection:
            connection.execute(f"PRAGMA cache_size = -{WRITE_CACHE_KB}")
            yield connection
            connection.execute("UPDATE collection SET generation = generation + 1")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        inode, connection = self._borrow()
        try:
            connection.execute(begin)
            while begin == _WRITE and self.inode() != inode:  # another collection got the name while this one waited
                connection.close()
                inode, connection = self._borrow()
                connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
            if self.erased:
                self._empty_log(connection)
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.close()
            if isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error)):
                raise CollectionBusy(self.name) from error
            if isinstance(error, sqlite3.Error) and self._no_room(error):
                raise DiskFull(self.name) from error
            raise
        with self._lock:
            self._idle.append((inode, connection))

    def _empty_log(self, connection: sqlite3.Connection) -> None:
        """Leave nothing of what was removed in the write-ahead log; while others read, a later transaction does it."""
        connection.execute("PRAGMA busy_timeout = 0")
        self.erased = False  # first: another thread may set it again meanwhile
        try:
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self.erased |= bool(busy)
        except sqlite3.Error as error:
            self.erased = True
            log.info("the log of %s is not emptied yet: %s", self.path, error)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    def _borrow(self) -> tuple[int, sqlite3.Connection]:
        """An open connection to the current file: a deleted and re-created collection is another file."""
        inode = self.inode()
        with self._lock:
            stale = [idle for idle in self._idle if idle[0] != inode]
            self._idle = [idle for idle in self._idle if idle[0] == inode]
            current = self._idle.pop() if self._idle else None
        for _, connection in stale:
            connection.close()
        return current or (inode, self._connect())

    def inode(self) -> int:
        """Tells the collection's file from one that has its name later. Raises UnknownCollection."""
        try:
            return self.path.stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            raise UnknownCollection(self.name) from None

    def _no_room(self, error: sqlite3.Error) -> bool:
        """Whether the disk is full. SQLite reports that for writes, but not when it creates a connection's files."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        full = code == sqlite3.SQLITE_IOERR and shutil.disk_usage(self.folder).free < ROOM_BYTES
        return full or code == sqlite3.SQLITE_FULL

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten with zeros
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            if self._no_room(error):
                raise DiskFull(self.name) from error
            raise RetrieverError(
                f"collection {self.name!r} cannot be opened ({error}); delete it and ingest its documents again"
            ) from error
        if version in migration.EARLIER:
            self._migrate(connection)
        elif version != SCHEMA_VERSION:
            connection.close()
            raise RetrieverError(
                f"collection {self.name!r} was written by another version (layout {version}, this one reads "
                f"{SCHEMA_VERSION}); delete it and ingest its documents again"
            )
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring a collection of an earlier layout to this one. Raises CollectionBusy, DiskFull, RetrieverError."""
        try:
            migration.upgrade(connection, self.name, SCHEMA_VERSION)
        except sqlite3.Error as error:
            connection.close()
            if self._no_room(error):
                raise DiskFull(self.name) from error
            if "locked" in str(error) or "busy" in str(error):
                raise CollectionBusy(self.name) from error
            raise RetrieverError(
                f"collection {self.name!r} of an earlier version cannot be brought to this one ({error}); delete it "
                "and ingest its documents again"
            ) from error


def facts(connection: sqlite3.Connection) -> CollectionFacts:
    query = (
        "SELECT uid, embedder, dimension, created, generation, vector_dtype, embedder_dtype, chunk_size FROM collection"
    )
    return CollectionFacts(*connection.execute(query).fetchone())


def follow(connection: sqlite3.Connection, before: CollectionFacts) -> None:
    """Take over when a collection was created, and its generation."""
    query = "UPDATE collection SET created = ?, generation = max(generation, ?)"
    connection.execute(query, (before.created, before.generation))
