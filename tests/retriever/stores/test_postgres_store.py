"""What only PostgreSQL has: tenants behind a fence, an index beside the tables, and a database that may be away."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from retriever import CollectionBusy, Library, RetrieverError, SourceDocument, StoreUnavailable, open_stores
from retriever.postgres import database, nearest, recall
from retriever.postgres.database import Database
from retriever.postgres.schema import SCHEMA
from retriever.postgres.stores import PostgresStores
from retriever.stores.protocol import Rows
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer

TABLES = (
    "collections", "documents", "document_metadata", "chunks", "terms", "postings", "document_terms",
    "document_lengths", "stored_by",
)  # fmt: skip


@pytest.fixture
def stores(postgres_url: str) -> Iterator[PostgresStores]:
    opened = PostgresStores(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def library(stores: PostgresStores, tmp_path: Path) -> Library:
    return Library(tmp_path, HashEmbedder(), stores=stores)


def source(identity: str, text: str, **metadata: Any) -> SourceDocument:
    return SourceDocument(document_id=identity, text=text, metadata=metadata)


def found(library: Library, question: str = "zebra") -> list[str]:
    return sorted(passage.document_id for passage in library.collection("docs").search(question, 20))


def fill(library: Library, *identities: str) -> None:
    sources = [source(one, f"zebra {one}", n=1) for one in identities]
    library.create("docs", exist_ok=True).ingest(sources, job="job")


def test_no_tenant_sees_rows_of_another(library: Library, postgres_url: str, postgres: PostgresServer) -> None:
    fill(library, "a", "b")
    fill(library.of("other"), "c")
    with psycopg.connect(postgres_url) as connection:
        for table in TABLES:
            query = f"SELECT tenant FROM {SCHEMA}.{table}"
            seen = {}
            for tenant in (None, "nobody", "default", "other"):
                connection.execute("SELECT set_config('app.tenant', %s, true)", (tenant or "",))
                seen[tenant] = {row[0] for row in connection.execute(query)}
            assert seen == {None: set(), "nobody": set(), "default": {"default"}, "other": {"other"}}, table
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"UPDATE {SCHEMA}.{table} SET tenant = 'default'")
    with psycopg.connect(postgres_url) as connection:  # one that never heard of tenants
        assert connection.execute(f"SELECT count(*) FROM {SCHEMA}.documents").fetchone() == (0,)
    assert (found(library), found(library.of("other"))) == (["a", "b"], ["c"])
    library.delete("docs")
    assert found(library.of("other")) == ["c"]


def test_a_deleted_collection_leaves_nothing(library: Library, postgres_url: str, postgres: PostgresServer) -> None:
    fill(library, "marker-a", "marker-b")
    name = postgres_url.split("/")[3].partition("?")[0]
    assert postgres.execute(f"SELECT count(*) FROM {SCHEMA}.terms", name)[0] != (0,)
    library.delete("docs")
    for table in TABLES:
        assert postgres.execute(f"SELECT count(*) FROM {SCHEMA}.{table}", name) == [(0,)], table


def test_a_database_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    away = open_stores("postgresql://me:hush@127.0.0.1:1/name", tmp_path)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/name cannot be used .* check that it runs") as caught:
        away.names()
    assert "hush" not in str(caught.value)
    for url in ("mysql://a/b", "postgresql://%%%", ""):
        with pytest.raises(ValueError, match="must be postgresql://"):
            open_stores(url, tmp_path)


def test_a_database_without_pgvector_says_how_to_install_it(postgres: PostgresServer) -> None:
    with postgres.database(vector=False) as url, pytest.raises(StoreUnavailable, match="CREATE EXTENSION vector"):
        PostgresStores(url).names()


def test_a_layout_of_another_version_is_named(library: Library, postgres_url: str, tmp_path: Path) -> None:
    fill(library, "a")
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"UPDATE {SCHEMA}.layout SET version = 99")
    with pytest.raises(RetrieverError, match=r"layout 99, this one reads 2"):
        PostgresStores(postgres_url).names()


def test_tables_of_layout_1_are_brought_to_this_one_for_all_tenants(library: Library, postgres_url: str) -> None:
    fill(library, "a")
    long = "\n\n".join(f"zebra {number} {'and so on ' * 80}" for number in range(4))
    for one in (library, library.of("other")):
        one.create("docs", exist_ok=True).ingest([source("long", long), source("b", "zebra"), source("c", "zebra c")])
        one.collection("docs").delete("b")

    def lengths() -> list[list[tuple[int, int]]]:
        with contextlib.closing(PostgresStores(postgres_url)) as stores:
            found = []
            for tenant in ("default", "other"):
                with stores.of(tenant).open("docs").read() as snapshot:
                    found.append(snapshot.lengths().tolist())
            return found

    before = lengths()
    assert [len(one) for one in before] == [3, 2]
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"ALTER TABLE {SCHEMA}.collections DROP COLUMN chunk_size")
        connection.execute(f"DROP TABLE {SCHEMA}.document_lengths")
        connection.execute(f"UPDATE {SCHEMA}.layout SET version = 1")
    assert lengths() == before
    with contextlib.closing(Library(Path("unused"), HashEmbedder(), stores=PostgresStores(postgres_url))) as opened:
        fill(opened, "d")
        assert [info.id for info in opened.collection("docs").documents()] == ["a", "c", "d", "long"]
    with psycopg.connect(postgres_url) as connection:  # the fence stands again
        for table in ("collections", "chunks", "postings", "document_lengths"):
            assert connection.execute(f"SELECT count(*) FROM {SCHEMA}.{table}").fetchone() == (0,), table


def test_a_role_that_may_create_no_tables_is_told_so(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        name = url.split("/")[3].partition("?")[0]
        postgres.execute("DO $$ BEGIN CREATE ROLE poor LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
        with pytest.raises(StoreUnavailable, match="GRANT CREATE"):
            PostgresStores(postgres.url(name, "poor")).names()


def test_superusers_are_said_to_pass_the_fence(postgres: PostgresServer, postgres_url: str) -> None:
    name = postgres_url.split("/")[3].partition("?")[0]
    assert Database(postgres_url).state().fenced
    state = Database(postgres.url(name, "postgres")).state()
    assert (state.fenced, state.pgvector.startswith("0.")) == (False, True)


def test_readers_wait_for_no_writer_and_writers_wait_for_each_other(
    library: Library, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, "a")
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    with stores.open("docs").write() as transaction:
        assert transaction.delete("a")
        assert found(library) == ["a"]
        with pytest.raises(CollectionBusy, match="'docs'"):
            library.collection("docs").delete("a")
    assert found(library) == []


def test_a_snapshot_stays_as_it_is(library: Library, stores: PostgresStores) -> None:
    fill(library, "a")
    with stores.open("docs").read() as snapshot:
        before = snapshot.counts()
        library.collection("docs").delete("a")
        assert snapshot.document("a") is not None
        assert (snapshot.counts(), snapshot.totals()[0]) == (before, 1)


def test_what_no_index_of_postgresql_has_room_for(library: Library) -> None:
    long, word = "x" * 5000, "q" * 1100
    key = "k" * 3000
    metadata = {key: long, "nul": "a\0b", "list": [long, "\ud800"], "date": {"a": "\0"}}
    library.create("docs").ingest([source("a", f"zebra {word}", **metadata), source("b", f"zebra {word[:-1]}p")])
    docs = library.collection("docs")
    assert docs.get("a").metadata == metadata
    for where in ({key: long}, {"nul": "a\0b"}, {"list": {"$contains": long}}, {key: {"$gt": "x" * 4999}}):
        assert {passage.document_id for passage in docs.search("zebra", filter=where)} == {"a"}
    assert docs.search("zebra", filter={key: long[:-1]}) == []
    assert {passage.document_id for passage in docs.search(word, mode="lexical")} == {"a"}
    assert [one.passage.document_id for one in library.mentions(["docs"], word[:1090]).found] == ["a", "b"]


def test_ids_that_cannot_be_stored_are_unknown(library: Library) -> None:
    fill(library, "a", "b", "\U0001f600", "\uffee", "Z")
    docs = library.collection("docs")
    assert [one.id for one in docs.documents()] == ["Z", "a", "b", "\uffee", "\U0001f600"]
    assert [one.id for one in docs.documents(after="a\0z")] == ["b", "\uffee", "\U0001f600"]
    assert len(docs.documents(after="\ud800")) == 5
    for call in (docs.get, docs.chunks, docs.delete):
        for identity in ("a\0", "\ud800"):
            with pytest.raises(LookupError):
                call(identity)
    assert docs.search("zebra", candidates=["a\0:0", "\ud800:0", "b:0"])


def unit(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Vectors [count, 32] around some centres."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((20, 32))[random.integers(0, 20, count)] + 0.7 * random.standard_normal(
        (count, 32)
    )
    for dtype in (np.float16, np.float32):  # as they are stored
        wide = vectors.astype(np.float64)
        vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(dtype)
    return vectors


def test_the_index_finds_what_an_exact_scan_finds(
    stores: PostgresStores, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.create("docs", "hash-32", 32, "float32")
    store, vectors, queries = stores.open("docs"), unit(3000, 1), unit(40, 2)
    with store.read() as snapshot:
        column = snapshot.vectors
    with psycopg.connect(postgres_url.replace("rag@", "postgres@")) as connection:  # COPY passes no fence
        connection.execute(f"SET search_path = {SCHEMA}, public")
        connection.execute("SELECT set_config('app.tenant', 'default', false)")
        connection.execute(
            "INSERT INTO documents(collection, id, name, title, kind, text, bytes, content_hash, metadata, pages, "
            "chunks, updated) VALUES (%s, 'd', '', '', 'plain', '', 0, '', '{}', '[]', 3000, 0)",
            (column.collection,),
        )
        columns = "collection, row, document, ordinal, first, past, headings, text, embedded_hash, half"
        (document,) = connection.execute("SELECT row FROM documents").fetchone() or (0,)
        with connection.cursor().copy(f"COPY chunks({columns}) FROM STDIN") as copy:
            for row, vector in enumerate(vectors, start=1):
                text = database.literal(vector)
                copy.write_row((column.collection, row, document, row, 0, 1, "[]", "x", row.to_bytes(4), text))
        connection.execute("UPDATE collections SET chunks = 3000")

    def nearest_rows(allowed: Rows | None = None) -> list[list[int]]:
        with store.search() as snapshot:
            return [[row for row, _ in snapshot.nearest(query, 10, allowed)()] for query in queries]

    kept = np.arange(1, 3001, 3, dtype=np.int64)
    far = np.sort(np.argsort(vectors @ queries[0])[:1500] + 1)  # the index finds none of them near the first query
    exact = [nearest_rows(), nearest_rows(kept), nearest_rows(far)]
    for rows, choice in zip(exact, (np.arange(1, 3001), kept, far), strict=True):
        for row, query_vector in zip(rows, queries, strict=True):
            assert row == choice[np.argsort(-(vectors[choice - 1] @ query_vector), kind="stable")[:10]].tolist()

    monkeypatch.setattr(nearest, "EXACT_MOST", 500)
    monkeypatch.setattr(nearest, "FILTERED_EXACT_MOST", 500)
    store.save_index()
    measured = _measured(postgres_url, column.index)
    assert measured.ef_search in recall.WIDTHS
    assert measured.recall >= recall.LEAST
    assert measured.chunks == 3000
    monkeypatch.setattr(recall, "measure", lambda *_: pytest.fail("an index is measured again when it has grown"))
    store.save_index()
    monkeypatch.setattr(recall, "measure", lambda *_: recall.Measured(700, 1.0, 6000))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT set_config('app.tenant', 'default', true)")
        connection.execute(f"UPDATE {SCHEMA}.collections SET chunks = 6000")
    store.save_index()
    assert _measured(postgres_url, column.index) == recall.Measured(700, 1.0, 6000)
    with store.search() as snapshot:
        nearest.configure(snapshot.connection, 700)
        wanted = {"hnsw.ef_search": "700", **nearest.SETTINGS}
        settings = {name: snapshot.connection.execute(f"SHOW {name}").fetchone() for name in wanted}
        assert settings == {name: (value,) for name, value in wanted.items()}
        plan = snapshot.connection.execute(
            f"EXPLAIN SELECT row FROM chunks WHERE collection = {column.collection} "
            f"ORDER BY {column.indexed} <#> '{database.literal(queries[0])}'::halfvec(32) LIMIT 20"
        ).fetchall()
        assert column.index in str(plan)
    for rows, allowed in zip(exact, (None, kept, far), strict=True):
        hits = [len(set(one) & set(other)) for one, other in zip(rows, nearest_rows(allowed), strict=True)]
        assert sum(hits) >= 0.98 * 10 * len(queries)
    assert stores.delete("docs")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.{column.index}",)).fetchone() == (None,)


def _measured(url: str, index: str) -> recall.Measured:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class')", (f"{SCHEMA}.{index}",)
        ).fetchone()
    assert row is not None
    return recall.Measured.of_comment(row[0])


def test_several_that_open_an_empty_database_make_its_tables_once(postgres_url: str) -> None:
    opened = [PostgresStores(postgres_url) for _ in range(4)]
    created: list[bool] = []

    threads = [
        threading.Thread(target=lambda one=one: created.append(one.create("docs", "e", 3, "float32"))) for one in opened
    ]
    for thread in threads:
        thread.start()
    for thread, one in zip(threads, opened, strict=True):
        thread.join()
        one.close()
    assert sorted(created) == [False, False, False, True]
