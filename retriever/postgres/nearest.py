"""The nearest chunks of a collection by pgvector: an exact scan while it is small, an HNSW index above that.

Whatever finds the candidates, their cosines are computed from the stored vectors in single precision, so both ways and
both stores give the same numbers. The index holds vectors in half precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg import sql

from retriever.embedding.embedder import Vectors
from retriever.errors import StoreUnavailable
from retriever.moments import Moments
from retriever.postgres import recall, schema
from retriever.postgres.database import Database, literal
from retriever.postgres.schema import Connection
from retriever.stores.protocol import Rows
from retriever.stores.records import SAMPLE

EXACT_MOST = 10_000
"""Chunks of a collection up to which all are compared: there the index is no faster."""
FILTERED_EXACT_MOST = 30_000
"""The same for chunks that pass a filter, for which the index has to read many others."""
MOST_DIMENSIONS = 4000
"""Of an HNSW index in half precision; collections with more are always compared exactly."""
SETTINGS = {
    "hnsw.iterative_scan": "relaxed_order",  # what it finds is sorted anyway; a strict order leaves some out
    "hnsw.max_scan_tuples": "200000",
    "enable_sort": "off",  # else the planner, which knows little of vectors, may sort all of them
}
SLACK = 0.002
"""By how much two cosines can move against each other when unit vectors are rounded to half precision: 4 * 2^-11."""
WIDER = 2
"""Candidates that the index gives, as a multiple of those wanted: half precision may swap near ones."""
UNEVEN = 1.5
"""Times as many chunks are taken from the index as would hold enough that pass a filter, did they lie evenly."""
BUILD = "m = 32, ef_construction = 128"


@dataclass(frozen=True, slots=True)
class Column:
    """Where a collection's vectors are. The texts are SQL without anything from outside."""

    collection: int
    dimension: int
    single: bool

    @property
    def name(self) -> str:
        return "single" if self.single else "half"

    @property
    def exact(self) -> str:
        return "single" if self.single else "l2_normalize(half::vector)"

    @property
    def cosine(self) -> str:
        """With a vector of length 1 for its parameter; 0 for one of length 0, which pgvector has no cosine for."""
        if self.single:
            return "-(single <#> %s::vector)"
        return "1 - coalesce(nullif(half::vector <=> %s::vector, 'NaN'), 1)"

    @property
    def indexed(self) -> str:
        return f"({self.name}::halfvec({self.dimension}))"

    @property
    def index(self) -> str:
        return f"chunks_nearest_{self.collection}"


def nearest(
    connection: Connection, column: Column, chunks: int, vector: Vectors, depth: int, allowed: Rows | None
) -> list[tuple[int, float]]:
    """The `depth` nearest of a collection of `chunks` as (row, cosine), best first, ties by row."""
    candidates, most = (chunks, EXACT_MOST) if allowed is None else (len(allowed), FILTERED_EXACT_MOST)
    if not candidates:
        return []
    measured = None if candidates <= most else _indexed(connection, column)
    if measured is None:
        rows = _compared(connection, column, vector, depth, allowed)
    else:
        configure(connection, measured.ef_search)
        rows = _from_index(connection, column, chunks, vector, WIDER * depth, allowed)
        connection.execute("SET LOCAL enable_sort = on")
    return _best(connection, column, vector, rows, depth)


def _best(
    connection: Connection, column: Column, vector: Vectors, rows: Sequence[int], depth: int
) -> list[tuple[int, float]]:
    found = cosines(connection, column, vector, rows).items()
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:depth]


def _compared(connection: Connection, column: Column, vector: Vectors, depth: int, allowed: Rows | None) -> list[int]:
    """Rows of all chunks that could be among the nearest in single precision, by their distances in half precision."""
    where, parameters = _among(column, allowed)
    far = f"{column.indexed} <=> %(vector)s::halfvec({column.dimension})"
    query = (
        f"WITH near AS (SELECT row, {far} AS far FROM chunks WHERE {where}), "
        f"best AS (SELECT far FROM near ORDER BY far LIMIT %(depth)s) "
        f"SELECT row FROM near WHERE far <= (SELECT max(far) FROM best) + {SLACK}"
    )
    return _rows(connection, query, {**parameters, "vector": literal(vector), "depth": depth})


def _from_index(
    connection: Connection, column: Column, chunks: int, vector: Vectors, count: int, allowed: Rows | None
) -> list[int]:
    """Rows of `count` chunks that the index finds.

    A filter that many chunks pass is applied to what the index finds without it: PostgreSQL takes longer to read the
    rows that pass than to find the nearest of all.
    """
    near = f"{column.indexed} <#> %(vector)s::halfvec({column.dimension})"

    def found(most: int, passing: Rows | None) -> list[int]:
        where, parameters = _among(column, passing)
        query = f"SELECT row FROM chunks WHERE {where} ORDER BY {near} LIMIT %(most)s"
        return _rows(connection, query, {**parameters, "vector": literal(vector), "most": most})

    if allowed is None:
        return found(count, None)
    rows = np.array(found(math.ceil(UNEVEN * count * chunks / len(allowed)), None), np.int64)
    passing: list[int] = rows[np.isin(rows, allowed)].tolist()
    return passing if len(passing) >= count else found(count, allowed)


def _among(column: Column, allowed: Rows | None) -> tuple[str, dict[str, object]]:
    """The condition that a collection's chunks meet, or those at the allowed rows, and its parameters."""
    where = f"collection = {column.collection}"
    return (where, {}) if allowed is None else (f"{where} AND row = ANY(%(rows)s)", {"rows": allowed.tolist()})


def _rows(connection: Connection, query: str, parameters: dict[str, object]) -> list[int]:
    return [int(row) for (row,) in connection.cursor(binary=True).execute(query, parameters)]


def cosines(connection: Connection, column: Column, vector: Vectors, rows: Sequence[int]) -> dict[int, float]:
    query = f"SELECT row, {column.cosine} FROM chunks WHERE collection = {column.collection} AND row = ANY(%s)"
    found = connection.cursor(binary=True).execute(query, (literal(vector), list(rows)))
    return {int(row): float(score) for row, score in found}


def moments(connection: Connection, column: Column, chunks: int, vector: Vectors) -> Moments:
    """Those of the cosines of all chunks, by a sample of them."""
    query = (
        f"SELECT count(*), sum(score), sum(score * score) FROM (SELECT {column.cosine} AS score FROM chunks "
        f"WHERE collection = {column.collection} ORDER BY embedded_hash LIMIT {SAMPLE}) AS sample"
    )
    row = connection.execute(query, (literal(vector),)).fetchone()
    assert row is not None
    return Moments(int(row[0]), float(row[1]), float(row[2])).scaled(chunks) if row[0] else Moments()


def save_index(database: Database, tenant: str, column: Column, chunks: int) -> None:
    """Build the index of a collection that has become large, and measure it; again when the collection has grown.

    Readers and writers go on meanwhile. A process that dies leaves an index that no search uses; the next one builds it
    anew.
    """
    if chunks <= EXACT_MOST or column.dimension > MOST_DIMENSIONS:
        return
    with database.alone() as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (database.path,))
        known = _indexed(connection, column)
        if known is not None and known.holds(chunks):
            return
        mine = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (column.index,)).fetchone()
        if mine is None or not mine[0]:  # another process builds it
            return
        if known is None:
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {column.index}")
            connection.execute(
                f"CREATE INDEX CONCURRENTLY {column.index} ON chunks USING hnsw ({column.indexed} halfvec_ip_ops) "
                f"WITH ({BUILD}) WHERE collection = {column.collection}"
            )
            connection.execute("ANALYZE chunks")
        with database.read(tenant) as reader:
            found = _measured(reader, column, chunks)
        connection.execute(sql.SQL("COMMENT ON INDEX {} IS {}").format(sql.Identifier(column.index), found.comment))


def _measured(connection: Connection, column: Column, chunks: int) -> recall.Measured:
    query = (
        f"SELECT {column.exact}::real[] FROM chunks WHERE collection = {column.collection} "
        f"ORDER BY embedded_hash LIMIT {recall.QUERIES}"
    )
    sample = np.array([vector for (vector,) in connection.cursor(binary=True).execute(query)], np.float32)

    def best(vector: Vectors, rows: Sequence[int]) -> list[int]:
        return [row for row, _ in _best(connection, column, vector, rows, recall.NEIGHBOURS)]

    def scan(vector: Vectors) -> list[int]:
        return best(vector, _compared(connection, column, vector, recall.NEIGHBOURS, None))

    def index(width: int) -> recall.Nearest:
        configure(connection, width)
        return lambda vector: best(vector, _from_index(connection, column, chunks, vector, recall.WIDTHS[0], None))

    return recall.measure(sample, chunks, scan, index)


def drop_index(database: Database, column: Column) -> None:
    """Remove the index of a collection that is gone."""
    with database.alone() as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (database.path,))
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {column.index}")


def _indexed(connection: Connection, column: Column) -> recall.Measured | None:
    """What was measured of the index; None if there is none, or it is not complete."""
    query = (
        "SELECT obj_description(indexrelid, 'pg_class') FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"
    )
    row = connection.execute(query, (f"{schema.SCHEMA}.{column.index}",)).fetchone()
    return None if row is None else recall.Measured.of_comment(row[0])


def configure(connection: Connection, ef_search: int) -> None:
    """Set how the index is searched, within the transaction, and read it back: pgvector drops what it does not know."""
    for name, value in {"hnsw.ef_search": str(ef_search), **SETTINGS}.items():
        try:
            row = connection.execute("SELECT set_config(%s, %s, true)", (name, value)).fetchone()
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"pgvector does not take {name} = {value} ({error}); install 0.8 or later"
            ) from error
        if row is None or row[0] != value:
            raise StoreUnavailable(f"pgvector does not take {name} = {value}; install 0.8 or later")
