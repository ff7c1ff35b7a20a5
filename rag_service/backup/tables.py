"""What is in PostgreSQL: the rows of collections and ingests, read in one snapshot and written in one transaction.

Rows are kept as COPY writes them in text, which every version of PostgreSQL and pgvector reads, with the numbers that
they have, because postings name rows by number. Row-level security shows the collections of one tenant at a time, so
the tenants must be known. Knows the names of tables; their columns are what the database says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from rag_service.backup.archive import PIECE, ArchiveWriter
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import Manifest, SavedCollection
from retriever.postgres import schema
from retriever.postgres.database import Database
from retriever.postgres.stores import PostgresStores
from retriever.types import DEFAULT_TENANT
from workers.ingests import database as ingests
from workers.ingests import ledger_sql
from workers.ingests.postgres_ledger import PostgresJobLedger

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

TABLES = (
    *((schema.SCHEMA, name) for name in schema.TABLES),
    *((ingests.SCHEMA, name) for name in ledger_sql.KEPT),
)
"""Schema and name, in an order in which they can be written."""
TENANTED = {*((schema.SCHEMA, name) for name in schema.TABLES), *((ingests.SCHEMA, name) for name in ledger_sql.FENCED)}
LAYOUTS = {schema.SCHEMA: schema.LAYOUT, ingests.SCHEMA: ingests.LAYOUT}
LOCK_S = 10
"""Seconds that a restore waits for tables that something else uses."""
_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "ORDER BY ordinal_position"
)
_NUMBERED = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "AND is_identity = 'YES'"
)


def save_tables(url: str, tenants: Iterable[str], archive: ArchiveWriter, manifest: Manifest) -> None:
    """Save all rows as they are at one moment, and note their columns, layouts and counts in the manifest.

    Args:
        tenants: those that are known from elsewhere; tenants that ever ingested are found here.

    Raises:
        BackupError: the role may not read the tables.
        StoreUnavailable, DatabaseUnavailable: the database cannot be used.
    """
    _prepare(url)
    with Database(url).alone() as connection, _explained():
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        known = sorted({DEFAULT_TENANT, *tenants, *_tenants(connection)})
        manifest.layouts = dict(LAYOUTS)
        for place in TABLES:
            columns = [name for (name,) in connection.execute(_COLUMNS, place)]
            manifest.columns[".".join(place)] = columns
            file = archive.folder / "rows"
            with file.open("wb") as out:
                for tenant in known if place[0] == schema.SCHEMA else [ingests.EVERYONE]:
                    _see(connection, tenant)
                    _read_rows(connection, place, columns, tenant, out.write)
            archive.add(f"postgres/{'.'.join(place)}.copy", file)
            file.unlink()
        for tenant in known:
            _see(connection, tenant)
            query = (
                f"SELECT tenant, name, embedder, documents FROM {schema.SCHEMA}.collections WHERE tenant = %s "
                "AND name NOT LIKE '.%%' ORDER BY name"
            )
            for owner, name, embedder, documents in connection.execute(query, (tenant,)):
                saved = SavedCollection(tenant=owner, name=name, embedder=embedder, documents=documents)
                manifest.collections.append(saved)
        _see(connection, ingests.EVERYONE)
        manifest.counts.jobs = _number(connection, f"SELECT count(*) FROM {ingests.SCHEMA}.ingest_jobs")
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def restored(url: str, folder: Path, manifest: Manifest) -> Iterator[Callable[[], object]]:
    """Write all rows. Gives a function that makes them stay; without it nothing is left of them.

    Args:
        folder: has a file of each table, as `postgres/NAME.copy`.

    Raises:
        BackupError: the database has collections or ingests, or is in use, or the archive is of other tables.
        StoreUnavailable, DatabaseUnavailable: the database cannot be used.
    """
    with Database(url).alone() as connection, _explained():
        connection.execute("BEGIN")
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_S}s'")
        for place in TABLES:
            if place in TENANTED:  # rows of all tenants are written together, which the tables' owner alone can do
                connection.execute(f"ALTER TABLE {'.'.join(place)} NO FORCE ROW LEVEL SECURITY")
        _refuse_rows(connection)
        for place in TABLES:
            _write_rows(connection, place, manifest.columns.get(".".join(place), []), folder)
        for place in TABLES:
            if place in TENANTED:
                connection.execute(f"ALTER TABLE {'.'.join(place)} FORCE ROW LEVEL SECURITY")
        connection.execute(
            f"SELECT setval('{ingests.SCHEMA}.ingest_turn', greatest(1, "
            f"(SELECT coalesce(max(turn), 1) FROM {ingests.SCHEMA}.ingest_turns)))"
        )
        yield lambda: connection.execute("COMMIT")


def refuse_contents(url: str, manifest: Manifest) -> None:
    """Raises BackupError if the archive is of other tables, or the database has collections or ingests already.

    A role sees collections of other tenants than the default one only once it writes; `restored` refuses those too.
    """
    _check_layouts(manifest)
    _prepare(url)
    with Database(url).alone() as connection:
        _see(connection, DEFAULT_TENANT)
        held = _number(connection, f"SELECT count(*) FROM {schema.SCHEMA}.collections")
        _see(connection, ingests.EVERYONE)
        held += _number(connection, f"SELECT count(*) FROM {ingests.SCHEMA}.ingest_jobs")
    if held:
        raise _not_empty()


def build_indexes(url: str, collections: Iterable[SavedCollection]) -> None:
    """Build the indexes of large collections. Searches compare all vectors until then."""
    stores = PostgresStores(url)
    try:
        for one in collections:
            stores.of(one.tenant).open(one.name).save_index()
    finally:
        stores.close()


def _check_layouts(manifest: Manifest) -> None:
    for name, layout in manifest.layouts.items():
        if LAYOUTS.get(name) != layout:
            raise BackupError(
                f"The archive has tables of another version ({name} in layout {layout}, this one reads "
                f"{LAYOUTS.get(name)}): restore it with rag-service {manifest.service_version}, then upgrade."
            )


def _prepare(url: str) -> None:
    """Create the tables where there are none."""
    ledger = PostgresJobLedger(url, Path())
    try:
        ledger.counts()
    finally:
        ledger.close()


def _tenants(connection: Connection) -> set[str]:
    """Those that ever ingested; a role that sees all rows sees those with collections too."""
    _see(connection, ingests.EVERYONE)
    tables = (f"{ingests.SCHEMA}.ingest_turns", f"{ingests.SCHEMA}.ingest_jobs", f"{schema.SCHEMA}.collections")
    return {str(name) for table in tables for (name,) in connection.execute(f"SELECT DISTINCT tenant FROM {table}")}


def _see(connection: Connection, tenant: str) -> None:
    connection.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))


def _read_rows(connection: Connection, place: tuple[str, str], columns: list[str], tenant: str, write: Any) -> None:
    query = sql.SQL("COPY (SELECT {} FROM {}").format(_listed(columns), sql.Identifier(*place))
    if tenant != ingests.EVERYONE:
        query += sql.SQL(" WHERE tenant = {}").format(tenant)
    with connection.cursor() as cursor, cursor.copy(query + sql.SQL(") TO STDOUT")) as copy:
        for data in copy:
            write(data)


def _write_rows(connection: Connection, place: tuple[str, str], columns: list[str], folder: Path) -> None:
    name = ".".join(place)
    if {name for (name,) in connection.execute(_COLUMNS, place)} != set(columns):
        raise BackupError(f"The archive has other columns of {name} than this version; nothing was changed.")
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(*place), _listed(columns))
    with (
        (folder / "postgres" / f"{name}.copy").open("rb") as file,
        connection.cursor() as cursor,
        cursor.copy(query) as copy,
    ):
        while data := file.read(PIECE):
            copy.write(data)
    for (column,) in connection.execute(_NUMBERED, place).fetchall():  # the next row gets a number of its own
        last = f"(SELECT coalesce(max({column}), 0) + 1 FROM {name})"
        connection.execute(f"SELECT setval(pg_get_serial_sequence(%s, %s), {last}, false)", (name, column))


def _listed(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _refuse_rows(connection: Connection) -> None:
    for table in (f"{schema.SCHEMA}.collections", f"{ingests.SCHEMA}.ingest_jobs"):
        if _number(connection, f"SELECT count(*) FROM {table}"):
            raise _not_empty()


def _not_empty() -> BackupError:
    return BackupError(
        "The database has collections or ingests already, and a restore merges nothing. Create an empty one, and set "
        "RAG_STORE_URL to it."
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """BackupError for what PostgreSQL rejects; that it cannot be used is left to `Database`."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise BackupError(
            "Something uses the database's tables. Stop the service, APIs and workers, and restore again."
        ) from None
    except psycopg.OperationalError:
        raise
    except psycopg.errors.InsufficientPrivilege as error:
        raise BackupError(
            f"The role of RAG_STORE_URL may not do this ({error}). Use the role that the tables belong to."
        ) from error
    except psycopg.Error as error:
        raise BackupError(f"PostgreSQL rejects the backup's rows ({error}); nothing was changed.") from error


def _number(connection: Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    return 0 if row is None else int(row[0])
