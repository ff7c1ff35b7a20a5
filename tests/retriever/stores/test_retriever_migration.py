"""A collection of an earlier layout is brought to the present one when it is opened, once, whoever opens it."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from retriever import Collection, Library, RetrieverError, SourceDocument
from retriever.stores import migration, store
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.earlier_layouts import to_layout_2, to_layout_3

TEXTS = {"a": "# Hotels\n\nThe hotels in Zurich cost more.", "b": "Ein Haus und viele Häuser.", "c": "日本語の文章"}


def sources() -> list[SourceDocument]:
    return [SourceDocument(document_id=name, text=text, metadata={"tags": [name]}) for name, text in TEXTS.items()]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The data folder of a collection `docs` as layout 1 had it: words in FTS5."""
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest(sources())
    collection.close()
    (file,) = tmp_path.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_2(connection)
        for table in ("terms", "postings", "document_terms", "lexical_totals"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX documents_bytes")
        connection.execute("DROP TABLE document_metadata")
        connection.execute("CREATE TABLE document_metadata (key TEXT NOT NULL, value TEXT NOT NULL, document INTEGER)")
        connection.execute("CREATE VIRTUAL TABLE lexical USING fts5(heading, text)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    return tmp_path


def found(collection: Collection, question: str) -> list[str]:
    return [passage.document_id for passage in collection.search(question, mode="lexical")]


def test_words_are_found_as_in_a_new_collection(old: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    new = Library(tmp_path_factory.mktemp("new"), HashEmbedder()).create("docs")
    new.ingest(sources())
    collection = Library(old, HashEmbedder()).collection("docs")
    for question in ("hotel zurich", "haus", "文章", "the und"):
        one, other = (one.search(question, mode="lexical") for one in (collection, new))
        assert [(p.chunk_id, p.score) for p in one] == [(p.chunk_id, p.score) for p in other] != []
    assert [p.document_id for p in collection.search("haus", filter={"tags": {"$contains": "b"}})] == ["b"]
    collection.delete("a")
    assert found(collection, "hotel") == []


def test_texts_are_those_of_before(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest(sources())
    before = [collection.get(name) for name in TEXTS], [collection.whole(name) for name in TEXTS]
    collection.close()
    (file,) = tmp_path.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_3(connection)
    connection.close()
    collection = Library(tmp_path, HashEmbedder()).collection("docs")
    assert ([collection.get(name) for name in TEXTS], [collection.whole(name) for name in TEXTS]) == before
    collection.delete("a")
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM texts").fetchone() == (2,)
    connection.close()


def test_searches_and_lists_read_no_whole_text(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest(sources())
    before = collection.search("hotels in Zurich", mode="hybrid"), collection.documents(), collection.whole("a")
    (file,) = tmp_path.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE texts")
    connection.close()
    assert (collection.search("hotels in Zurich"), collection.documents(), collection.whole("a")) == before


def test_a_collection_of_layout_3_gets_its_documents_lengths(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    long = "\n\n".join(f"Hotel {number} {'and so on ' * 80}" for number in range(4))
    collection.ingest([*sources(), SourceDocument(document_id="d", text=long)])
    collection.delete("b")
    with collection._store.read() as snapshot:
        before = snapshot.lengths().tolist()
    collection.close()
    (file,) = tmp_path.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_3(connection)
    connection.close()
    collection = Library(tmp_path, HashEmbedder()).collection("docs")
    with collection._store.read() as snapshot:
        assert snapshot.lengths().tolist() == before
        assert (len(before), snapshot.totals()[0]) == (3, 6)
    collection.delete("d")
    with collection._store.read() as snapshot:
        assert snapshot.lengths().tolist() == before[:2]


def test_several_openers_do_it_once(old: Path) -> None:
    libraries = [Library(old, HashEmbedder()) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda library: found(library.collection("docs"), "haus"), libraries))
    assert results == [["b"]] * 4


def test_a_migration_that_dies_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(migration.postings, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            found(Library(old, HashEmbedder()).collection("docs"), "haus")
    assert found(Library(old, HashEmbedder()).collection("docs"), "haus") == ["b"]


def test_a_later_layout_is_refused(old: Path) -> None:
    (file,) = old.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RetrieverError, match="another version"):
        found(Library(old, HashEmbedder()).collection("docs"), "haus")
