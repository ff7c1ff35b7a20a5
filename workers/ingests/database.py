"""Connections to the PostgreSQL of the ingest ledger, and what its errors mean.

Knows psycopg and its pool; knows no jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
import psycopg_pool

from workers.errors import DatabaseFull, DatabaseUnavailable

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

WAIT_S = 2.0
"""Seconds to wait for a connection."""
MOST_CONNECTIONS = 4
"""Of one process; the ledger's transactions are short."""
_ENTRY = 0x7261675F6A6F6273
"""The lock of those that create tables at the same time."""
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 2,
    "keepalives_idle": 10,
    "tcp_user_timeout": 10_000,
    "application_name": "rag-service ingests",
}


class Database:
    """One database, with the tables that `schema` creates on first use. Safe to use from several threads.

    Args:
        url: `postgresql://user:password@host/name`.
        schema: statements that may run again on a database that has the tables.
    """

    def __init__(self, url: str, schema: Sequence[str]) -> None:
        self._schema = schema
        self._created = False
        self._lock = threading.Lock()
        self._open = False
        self._pool = psycopg_pool.ConnectionPool(
            url,
            kwargs=_OPTIONS,
            min_size=0,
            max_size=MOST_CONNECTIONS,
            timeout=WAIT_S,
            reconnect_timeout=WAIT_S,
            check=psycopg_pool.ConnectionPool.check_connection,  # the database may have been restarted
            open=False,
        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, on the database's disk when this ends; an exception undoes it.

        Raises:
            DatabaseUnavailable: it cannot be reached, or takes no writes.
            DatabaseFull: its disk is full.
        """
        with _translated():
            self._prepare()
            with self._pool.connection() as connection:
                yield connection

    def close(self) -> None:
        """Close all connections; the object cannot be used after that."""
        self._pool.close()

    def _prepare(self) -> None:
        with self._lock:
            if not self._open:
                self._pool.open()
                self._open = True
        if not self._created:
            with self._pool.connection() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ENTRY,))
                for statement in self._schema:
                    connection.execute(statement.encode())
            self._created = True


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise DatabaseFull(f"the disk of PostgreSQL is full: {_first_line(error)}; free space there") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise DatabaseUnavailable(
            f"PostgreSQL takes no writes: {_first_line(error)}; point RAG_STORE_URL to the primary"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:  # those of the pool are of this kind
        raise DatabaseUnavailable(
            f"PostgreSQL cannot be reached ({type(error).__name__}: {_first_line(error)}); start it, or check "
            "RAG_STORE_URL"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no details"])[0]
