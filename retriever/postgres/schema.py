"""The tables, and how a database gets them. Knows layouts and the fence between tenants; reads no documents.

Every table has the tenant of its rows. Row-level security shows a transaction those of the tenant in `app.tenant`,
which `Database` sets for it, and no others. It holds for the tables' owner too, but not for a superuser. Without a
tenant it shows none.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

from retriever.errors import RetrieverError, StoreUnavailable
from retriever.lexical import lengths

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

SCHEMA = "rag_store"
LAYOUT = 2
LEAST_PGVECTOR = (0, 8)
"""The first version whose HNSW index goes on when a filter takes most of what it finds."""
_LOCK = 0x7261675F73746F72
"""The advisory lock of those that create the tables at the same time."""

_TENANT = "tenant text NOT NULL DEFAULT current_setting('app.tenant')"
_TABLES = {
    # Counters are kept here, so that nothing has to be counted. `rows`: the highest row ever given to a chunk
    "collections": f"""
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT}, name text COLLATE "C" NOT NULL,
        uid text NOT NULL, embedder text NOT NULL, dimension int NOT NULL, vector_dtype text NOT NULL,
        embedder_dtype text NOT NULL, created float8 NOT NULL, generation bigint NOT NULL DEFAULT 0,
        rows bigint NOT NULL DEFAULT 0, chunk_size int,
        documents bigint NOT NULL DEFAULT 0, bytes bigint NOT NULL DEFAULT 0, chunks bigint NOT NULL DEFAULT 0,
        tokens bigint NOT NULL DEFAULT 0, UNIQUE (tenant, name)""",
    "documents": f"""
        row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT},
        collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, id text COLLATE "C" NOT NULL,
        name text NOT NULL, title text NOT NULL, kind text NOT NULL, text text NOT NULL, bytes bigint NOT NULL,
        content_hash text NOT NULL, metadata text NOT NULL, date text, pages text NOT NULL, chunks int NOT NULL,
        updated float8 NOT NULL, UNIQUE (collection, id)""",
    "document_metadata": f"""
        {_TENANT}, collection bigint NOT NULL, document bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
        key text COLLATE "C" NOT NULL, element int NOT NULL, prefix text COLLATE "C" NOT NULL,
        value text COLLATE "C" NOT NULL, number float8""",
    # A collection's vectors are all in one of the two columns
    "chunks": f"""
        {_TENANT}, collection bigint NOT NULL, row bigint NOT NULL,
        document bigint NOT NULL REFERENCES documents ON DELETE CASCADE, ordinal int NOT NULL, first int NOT NULL,
        past int NOT NULL, page int, headings text NOT NULL, text text NOT NULL, embedded_hash bytea NOT NULL,
        single vector, half halfvec, PRIMARY KEY (collection, row), UNIQUE (document, ordinal)""",
    "terms": f"""
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_TENANT},
        collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, term text COLLATE "C" NOT NULL,
        UNIQUE (collection, term)""",
    "postings": f"""
        {_TENANT}, collection bigint NOT NULL, term bigint NOT NULL REFERENCES terms ON DELETE CASCADE,
        block bigint NOT NULL, entries bytea NOT NULL, PRIMARY KEY (term, block)""",
    "document_terms": f"""
        {_TENANT}, document bigint PRIMARY KEY REFERENCES documents ON DELETE CASCADE, collection bigint NOT NULL,
        language text COLLATE "C" NOT NULL, terms bytea NOT NULL""",
    "document_lengths": f"""
        {_TENANT}, collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, block bigint NOT NULL,
        documents bytea NOT NULL, PRIMARY KEY (collection, block)""",
    "originals": f"""
        {_TENANT}, collection bigint NOT NULL, document bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
        piece int NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (document, piece)""",
    "stored_by": f"""
        {_TENANT}, collection bigint NOT NULL REFERENCES collections ON DELETE CASCADE, job text NOT NULL,
        document text NOT NULL, PRIMARY KEY (collection, job, document)""",
}
TABLES = tuple(_TABLES)
"""Their names; each comes after those that it refers to."""
_PACKED = {"postings": "entries", "document_lengths": "documents"}
"""Columns that are not compressed: their parts are all different, so it would cost time and save nothing."""
_INDEXES = (
    "CREATE INDEX document_metadata_prefix ON document_metadata (collection, key, element, prefix, document)",
    "CREATE INDEX document_metadata_number ON document_metadata (collection, key, element, number, document)",
    "CREATE INDEX document_metadata_document ON document_metadata (document)",
    "CREATE INDEX chunks_embedded_hash ON chunks (collection, embedded_hash)",
    "CREATE INDEX document_terms_language ON document_terms (collection, language)",
)
_INSTALL = (
    "pgvector is missing in the database {database!r}: install it on the database's machine (the image "
    "pgvector/pgvector has it; Debian: postgresql-NN-pgvector), then run CREATE EXTENSION vector in the "
    "database as a superuser"
)


def prepare(connection: Connection, database: str) -> str:
    """Create the tables where there are none, and bring those of earlier versions to this one.

    Returns the schemas to look in, as `search_path` has them. Raises StoreUnavailable if pgvector is missing or too
    old, and RetrieverError for a layout of another version.
    """
    encoding = _one(connection, "SHOW server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database {database!r} has the encoding {encoding}; create one with ENCODING 'UTF8'"
        )
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        home = _pgvector(connection, database)
        path = f'{SCHEMA}, "{home}"'
        if _one(connection, "SELECT to_regclass(%s)::text", (f"{SCHEMA}.layout",)) is None:
            try:
                _create(connection, path)
            except psycopg.errors.InsufficientPrivilege as error:
                raise StoreUnavailable(
                    f"the role of RAG_STORE_URL may not create tables in the database {database!r}; run GRANT CREATE "
                    "ON DATABASE to that role, or make it the database's owner"
                ) from error
        layout = _one(connection, f"SELECT version FROM {SCHEMA}.layout")
        if layout == 1:
            _from_layout_1(connection, path)
            layout = LAYOUT
    if layout != LAYOUT:
        raise RetrieverError(
            f"the tables in the database {database!r} were written by another version (layout {layout}, this one reads "
            f"{LAYOUT}); use that version, or an empty database and ingest the documents again"
        )
    return path


def pgvector_version(connection: Connection) -> str | None:
    """The version of the extension in this database; None if it is not there."""
    found = _one(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    return None if found is None else str(found)


def fenced(connection: Connection) -> bool:
    """Whether row-level security holds for this role: it does not for superusers."""
    return not _one(connection, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")


def _pgvector(connection: Connection, database: str) -> str:
    """The schema of the extension, which is installed if it can be."""
    if pgvector_version(connection) is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION vector")
        except psycopg.Error as error:
            raise StoreUnavailable(_INSTALL.format(database=database)) from error
    version = pgvector_version(connection) or ""
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_PGVECTOR:
        raise StoreUnavailable(
            f"pgvector {version} in the database {database!r} is too old; install 0.8 or later and run ALTER EXTENSION "
            "vector UPDATE in the database as a superuser"
        )
    home = "SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"
    return str(_one(connection, home))


def _create(connection: Connection, path: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.execute(f"SET LOCAL search_path = {path}")
    for name in _TABLES:
        _create_table(connection, name)
    for statement in _INDEXES:
        connection.execute(statement)
    connection.execute("CREATE TABLE layout (version int NOT NULL)")
    connection.execute("INSERT INTO layout VALUES (%s)", (LAYOUT,))


def _create_table(connection: Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {name} ({_TABLES[name]})")
    connection.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    connection.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
    connection.execute(f"CREATE POLICY tenants ON {name} USING (tenant = current_setting('app.tenant', true))")
    if name in _PACKED:
        connection.execute(f"ALTER TABLE {name} ALTER COLUMN {_PACKED[name]} SET STORAGE EXTERNAL")


def _from_layout_1(connection: Connection, path: str) -> None:
    """It had no chunk size and no lengths of documents."""
    connection.execute(f"SET LOCAL search_path = {path}")
    connection.execute("ALTER TABLE collections ADD COLUMN chunk_size int")
    _create_table(connection, "document_lengths")
    fenced_off = ("collections", "chunks", "postings", "document_lengths")
    for name in fenced_off:  # those of all tenants are filled, which the tables' owner alone can do
        connection.execute(f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY")
    for tenant, collection, last in connection.execute("SELECT tenant, id, rows FROM collections").fetchall():
        query = "SELECT min(row) FROM chunks WHERE collection = %s GROUP BY document ORDER BY 1"
        firsts = [row for (row,) in connection.execute(query, (collection,))]
        query = "SELECT entries FROM postings WHERE collection = %s"
        entries = (blob for (blob,) in connection.cursor(binary=True).execute(query, (collection,)))
        for piece in lengths.pieces(lengths.counted(firsts, last, entries)):
            values = (tenant, collection, *piece)
            connection.execute("INSERT INTO document_lengths VALUES (%s, %s, %s, %s)", values)
    for name in fenced_off:
        connection.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
    connection.execute("UPDATE layout SET version = %s", (LAYOUT,))


def _one(connection: Connection, query: str, parameters: tuple[object, ...] = ()) -> Any:
    row = connection.execute(query, parameters).fetchone()
    return None if row is None else row[0]
