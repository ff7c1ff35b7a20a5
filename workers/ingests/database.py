"""Connections to the PostgreSQL of the ingest ledger, transactions for a tenant, and what its errors mean.

Knows psycopg, its pool and the fence between tenants; knows no jobs. Row-level security shows a transaction the rows
of the tenant in `app.tenant`, which `Database` sets for it, and no others. Workers take jobs of all tenants, so there
is `EVERYONE` too. It holds for the tables' owner, but not for a superuser. Without a tenant it shows none.
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

SCHEMA = "rag_ingests"
LAYOUT = 1
EVERYONE = "*"
"""In place of a tenant: no tenant is called so."""
FENCE = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    "CREATE POLICY tenants ON {table} "
    f"USING (tenant = current_setting('app.tenant', true) OR current_setting('app.tenant', true) = '{EVERYONE}')",
)
"""Statements that fence a table with the column `tenant`."""
WAIT_S = 2.0
"""Seconds to wait for a connection."""
MOST_CONNECTIONS = 4
"""Of one process; the ledger's transactions are short."""
_PLACE = "SELECT set_config('search_path', %s, true), set_config('app.tenant', %s, true)"
_LAYOUT = ("CREATE TABLE layout (version int NOT NULL)", f"INSERT INTO layout VALUES ({LAYOUT})")
_ENTRY = 0x7261675F6A6F6273
"""The lock of those that create tables at the same time."""
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 2,
    "keepalives_idle": 10,
    "tcp_user_timeout": 10_000,
    "application_name": "rag-service ingests",
}


class Database:
    """One database, in which the first use creates the tables. Safe to use from several threads.

    Args:
        url: `postgresql://user:password@host/name`.
        tables: the statements that create the tables, without a schema.
        fenced: the tables that have a column `tenant`.
    """

    def __init__(self, url: str, tables: Sequence[str], fenced: Sequence[str]) -> None:
        self._statements = (*tables, *(one.format(table=table) for table in fenced for one in FENCE))
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
    def transaction(self, tenant: str) -> Iterator[Connection]:
        """One transaction, on the database's disk when this ends; an exception undoes it.

        Args:
            tenant: whose rows it sees and writes; `EVERYONE` for those of all.

        Raises:
            DatabaseUnavailable: it cannot be reached, or takes no writes.
            DatabaseFull: its disk is full.
        """
        with _translated():
            self._prepare()
            with self._pool.connection() as connection:
                connection.execute(_PLACE, (SCHEMA, tenant))
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
                self._create(connection)
            self._created = True

    def _create(self, connection: Connection) -> None:
        """Create the tables where there are none. Only then: it waits for everything that uses them."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ENTRY,))
        connection.execute(_PLACE, (SCHEMA, EVERYONE))
        if _one(connection, "SELECT to_regclass(%s)::text", f"{SCHEMA}.layout") is None:
            try:
                for statement in (f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}", *self._statements, *_LAYOUT):
                    connection.execute(statement.encode())
            except psycopg.errors.InsufficientPrivilege as error:
                raise DatabaseUnavailable(
                    f"the role of RAG_STORE_URL may not create tables ({_first_line(error)}); run GRANT CREATE ON "
                    "DATABASE to that role, or make it the database's owner"
                ) from error
        layout = _one(connection, "SELECT version FROM layout")
        if layout != LAYOUT:
            raise DatabaseUnavailable(
                f"the ingests in PostgreSQL were written by another version (layout {layout}, this one reads "
                f"{LAYOUT}); use that version, or an empty database"
            )


def _one(connection: Connection, query: str, *parameters: object) -> object:
    row = connection.execute(query.encode(), parameters).fetchone()
    return None if row is None else row[0]


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
