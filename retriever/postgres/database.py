"""Connections to one PostgreSQL database, transactions for a tenant, and what the database's errors mean.

Knows psycopg; knows no documents. Connections are opened when they are needed, used again, and opened anew after the
database was restarted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from retriever.errors import CollectionBusy, DiskFull, StoreUnavailable
from retriever.postgres import schema
from retriever.postgres.schema import Connection

BUSY_SECONDS = 30
"""How long a change waits for another one of the same collection."""
CONNECT_SECONDS = 5
MOST_IDLE = 8
"""Connections that stay open while nothing uses them."""
_FULL = (psycopg.errors.DiskFull,)
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "BEGIN"


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What `rag doctor` shows.

    Attributes:
        place: `host:port/database`.
        fenced: whether row-level security holds for the user.
    """

    place: str
    server: str
    pgvector: str
    fenced: bool


class Database:
    """Safe to use from several threads.

    Args:
        url: `postgresql://user:password@host:port/database`. The password is in no message.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error:
            parts = {}
        if not url.startswith(("postgresql://", "postgres://")) or not parts:
            raise ValueError("the store's URL must be postgresql://user:password@host:port/database")
        self._url = url
        self.name = str(parts.get("dbname") or parts.get("user") or "")
        self.place = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}/{self.name}"
        """`host:port/database`."""
        self._path: str | None = None
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def read(self, tenant: str) -> Iterator[Connection]:
        """One snapshot of what a tenant has. Never waits for a change. Raises StoreUnavailable."""
        with self._transaction(_READ, tenant, "") as connection:
            yield connection

    @contextlib.contextmanager
    def write(self, tenant: str, collection: str) -> Iterator[Connection]:
        """One atomic change. Raises StoreUnavailable, CollectionBusy, DiskFull."""
        with self._transaction(_WRITE, tenant, collection) as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            yield connection

    @contextlib.contextmanager
    def alone(self) -> Iterator[Connection]:
        """A connection outside transactions, closed afterwards, for statements that cannot be in one."""
        connection = self._connect()
        try:
            yield connection
        except psycopg.OperationalError as error:
            raise self._away(error) from error
        finally:
            connection.close()

    def state(self) -> DatabaseState:
        """Connect, create the tables where there are none, and say what is there. Raises StoreUnavailable."""
        with self.alone() as connection:
            server = connection.info.server_version
            version = schema.pgvector_version(connection) or ""
            return DatabaseState(self.place, f"{server // 10000}.{server % 10000}", version, schema.fenced(connection))

    @property
    def path(self) -> str:
        """The schemas to look in, as `search_path` has them."""
        return self._path or schema.SCHEMA

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str, tenant: str, collection: str) -> Iterator[Connection]:
        connection = self._begun(begin)
        try:
            connection.execute(
                "SELECT set_config('search_path', %s, true), set_config('app.tenant', %s, true)", (self.path, tenant)
            )
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            connection.close()
            if isinstance(error, _BUSY):
                raise CollectionBusy(collection) from error
            if isinstance(error, _FULL):
                raise DiskFull(collection) from error
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise self._away(error) from error
            raise
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _begun(self, begin: str) -> Connection:
        """A connection in a transaction: an idle one that still works, or a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
                with self._translated():
                    connection.execute(begin)
                return connection
            try:
                connection.execute(begin)
                return connection
            except psycopg.Error:  # the database was restarted since
                connection.close()

    def _connect(self) -> Connection:
        with self._translated():
            connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                prepare_threshold=None,  # each query is planned for its own parameters, and poolers get along with it
                fallback_application_name="rag-service",
            )
        try:
            with self._translated(), self._lock:
                if self._path is None:
                    self._path = schema.prepare(connection, self.name)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> StoreUnavailable:
        reason = " ".join(str(error).split()) or type(error).__name__
        return StoreUnavailable(
            f"the database at {self.place} cannot be used ({reason}); check that it runs, can be reached from here, "
            "and that user and password in RAG_STORE_URL are right"
        )


def literal(vector: Any) -> str:
    """A vector, float [dimension], as pgvector reads it."""
    return f"[{','.join(map(repr, vector.tolist()))}]"
