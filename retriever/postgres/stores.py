"""Collections as rows of one PostgreSQL database, which any number of machines share.

Knows tenants, transactions and locks; the statements are in `snapshot`, `transaction`, `words` and `nearest`. Changes
of one collection wait for each other; reads wait for nothing.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import psycopg

from retriever.errors import UnknownCollection
from retriever.postgres import nearest
from retriever.postgres.database import Database
from retriever.postgres.nearest import Column
from retriever.postgres.schema import Connection
from retriever.postgres.snapshot import PostgresSnapshot
from retriever.postgres.transaction import PostgresTransaction
from retriever.stores import vectors
from retriever.stores.passing import PassingRows
from retriever.stores.store import CollectionFacts

_FACTS = (
    "SELECT id, uid, embedder, dimension, created, generation, vector_dtype, embedder_dtype, chunk_size, rows "
    "FROM collections "
    "WHERE tenant = %s AND name = %s"
)


class PostgresStore:
    """One collection, looked up by its name in every transaction: a new one of the same name is no surprise."""

    def __init__(self, database: Database, tenant: str, name: str) -> None:
        self.name = name
        self._database = database
        self._tenant = tenant
        self._passing = PassingRows()

    @contextlib.contextmanager
    def read(self) -> Iterator[PostgresSnapshot]:
        with self._database.read(self._tenant) as connection:
            number, *columns, _ = self._row(connection)
            facts = CollectionFacts(*columns)
            yield PostgresSnapshot(connection, number, facts, facts.vector_dtype == "float32", self._passing)

    search = read

    @contextlib.contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        with self._database.write(self._tenant, self.name) as connection:
            number, *columns, last_row = self._row(connection, " FOR NO KEY UPDATE")
            facts = CollectionFacts(*columns)
            column = Column(number, facts.dimension, facts.vector_dtype == "float32")
            transaction = PostgresTransaction(connection, facts, column, last_row)
            yield transaction
            transaction.finish()

    def save_index(self) -> None:
        with self.read() as snapshot:
            column, chunks = snapshot.vectors, snapshot.totals()[0]
        nearest.save_index(self._database, self._tenant, column, chunks)

    def close(self) -> None:
        """The connections belong to all collections."""

    def _row(self, connection: Connection, lock: str = "") -> tuple[Any, ...]:
        return _row(connection, self._tenant, self.name, lock)


def _row(connection: Connection, tenant: str, name: str, lock: str) -> tuple[Any, ...]:
    for _ in range(2):  # a statement that waited for an exchange does not see who has the name since
        row = connection.execute(_FACTS + lock, (tenant, name)).fetchone()
        if row is not None:
            return row
    raise UnknownCollection(name)


class PostgresStores:
    """The collections of one tenant.

    Args:
        url: `postgresql://user:password@host:port/database`. The database must have pgvector, or let the user
            install it. Nothing is connected before it is needed.

    Raises ValueError for another URL.
    """

    def __init__(self, url: str, tenant: str = "default", database: Database | None = None) -> None:
        self._database = database or Database(url)
        self._tenant = tenant

    def of(self, tenant: str) -> PostgresStores:
        return PostgresStores("", tenant, self._database)

    def names(self) -> list[str]:
        with self._database.read(self._tenant) as connection:
            found = connection.execute("SELECT name FROM collections WHERE tenant = %s", (self._tenant,))
            return [str(name) for (name,) in found]

    def exists(self, name: str) -> bool:
        with self._database.read(self._tenant) as connection:
            return connection.execute(_FACTS, (self._tenant, name)).fetchone() is not None

    def create(
        self,
        name: str,
        embedder: str,
        dimension: int,
        embedder_dtype: str,
        vector_dtype: str = vectors.NEW,
        chunk_size: int | None = None,
    ) -> bool:
        with self._database.write(self._tenant, name) as connection:
            made = connection.execute(
                "INSERT INTO collections(name, uid, embedder, dimension, vector_dtype, embedder_dtype, created, "
                "chunk_size) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING id",
                (name, uuid.uuid4().hex, embedder, dimension, vector_dtype, embedder_dtype, time.time(), chunk_size),
            )
            return made.fetchone() is not None

    def delete(self, name: str) -> bool:
        with self._database.write(self._tenant, name) as connection:
            query = "DELETE FROM collections WHERE tenant = %s AND name = %s RETURNING id, dimension, vector_dtype"
            row = connection.execute(query, (self._tenant, name)).fetchone()
            row = row or connection.execute(query, (self._tenant, name)).fetchone()  # as in `_row`
        if row is not None:
            nearest.drop_index(self._database, Column(row[0], row[1], row[2] == "float32"))
        return row is not None

    def rename(self, name: str, new: str) -> bool:
        if self.exists(new):
            return False
        try:
            with self._database.write(self._tenant, name) as connection:
                self._renamed(connection, name, new)
        except psycopg.errors.UniqueViolation:
            return False
        return True

    @contextlib.contextmanager
    def exchanging(self, name: str) -> Iterator[Callable[[str], None]]:
        with self._database.write(self._tenant, name) as connection:
            _row(connection, self._tenant, name, " FOR NO KEY UPDATE")

            def exchange(other: str) -> None:
                between = f".exchange-{uuid.uuid4().hex}"
                for old, new in ((name, between), (other, name), (between, other)):
                    self._renamed(connection, old, new)

            yield exchange

    def _renamed(self, connection: Connection, name: str, new: str) -> None:
        query = "UPDATE collections SET name = %s WHERE tenant = %s AND name = %s"
        if not connection.execute(query, (new, self._tenant, name)).rowcount:
            raise UnknownCollection(name)

    def open(self, name: str) -> PostgresStore:
        return PostgresStore(self._database, self._tenant, name)

    def key(self, name: str) -> Hashable:
        return self._database.place, self._tenant, name

    def close(self) -> None:
        self._database.close()
