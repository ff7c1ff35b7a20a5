"""An index is built anew while the old one serves, follows what changes, and takes its place in one step."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from retriever import (
    EmbedderMismatch,
    RetrieverError,
    SourceDocument,
    UnknownCollection,
    cancel_reindex,
)
from retriever.embedded.stores import EmbeddedStores
from retriever.embedding.embedder import Vectors
from retriever.moving.reindexing import ReindexReport
from retriever.postgres.stores import PostgresStores
from retriever.search import index
from retriever.stores import store
from retriever.stores.hidden import reindexed
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.earlier_layouts import to_layout_2
from tests.support.storage.moving import (
    FILE,
    Open,
    assert_same_documents,
    assert_same_index,
    fill,
    ids,
    kept,
    reindex,
    stores_at,
    text_source,
    twin_of,
)
from tests.support.storage.postgres import PostgresServer


@pytest.fixture(params=["embedded", "postgres"])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], str]) -> str:
    return new_place(request.param)


def test_another_embedder(place: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path) -> None:
    before, after = opened(place).create("docs"), opened(place, HashEmbedder(32))
    fill(before, tmp_path)
    facts = before.stats()
    documents = {identity: (before.get(identity), before.chunks(identity)) for identity in ids(before)}
    for mode in ("dense", "hybrid"):
        before.search("zebra", 3, mode)  # type: ignore[arg-type]
    seen = []

    def progress(done: int, total: int, name: str) -> None:
        seen.append((done, total))
        assert before.search("zebra of d1", 3)[0].document_id == "d1"

    report = reindex(place, HashEmbedder(32), progress=progress)
    assert report == ReindexReport("docs", 10, 10, True)
    assert seen[0] == (0, 10)
    assert (10, 10) in seen
    # The old process is told by name; words are still found
    with pytest.raises(EmbedderMismatch, match="hash-32, not hash-64"):
        before.search("zebra")
    assert before.search("zebra", mode="lexical")
    with pytest.raises(EmbedderMismatch):
        before.ingest([text_source("more")])
    collection = after.collection("docs")
    assert (collection.stats().embedder, collection.stats().dimension) == ("hash-32", 32)
    assert collection.stats().created == facts.created
    assert collection.stats().generation > facts.generation  # equal numbers mean equal contents
    assert {one: (collection.get(one), collection.chunks(one)) for one in ids(collection)} == documents
    assert kept(collection, "file") == FILE
    assert [chunk.page for chunk in collection.chunks("pages")] == [1, 2]
    assert opened(place).collections() == ["docs"]
    stores = stores_at(place)
    assert stores.names() == ["docs"]
    stores.close()
    # and it is what it would be had it been so from the start
    for identity in ("file", "pages"):
        collection.delete(identity)
    twin = twin_of(collection, new_place("embedded"), HashEmbedder(32), tmp_path)
    assert_same_index(twin, collection)
    twin.close()


def test_another_chunk_size(place: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path) -> None:
    embedder = HashEmbedder()
    collection = opened(place).create("docs")
    fill(collection, tmp_path)
    long = [len(chunk.text) for chunk in collection.chunks("d1")]
    assert reindex(place, embedder, chunk_size=200).exchanged
    # The same process goes on with the new index, and what is ingested has its chunk size
    chunks = collection.chunks("d1")
    assert max(long) > 270 >= max(len(chunk.text.encode()) for chunk in chunks)
    assert chunks[0].heading == ("About d1",)
    assert ("About d1", "Words") in [chunk.heading for chunk in chunks]
    assert [chunk.page for chunk in collection.chunks("pages")] == [1, 2]
    assert all(collection.search(f"zebra of d{n}", 1)[0].document_id == f"d{n}" for n in range(8))
    text = text_source("d1").text or ""
    collection.ingest([SourceDocument(document_id="again", text=text)])
    assert [chunk.text for chunk in collection.chunks("again")] == [chunk.text for chunk in chunks]
    # An unchanged document stays unchanged
    assert collection.ingest([text_source("d1")]).unchanged == ("d1",)
    # With the default again the vectors of equal texts are those that are there
    embedder.calls.clear()
    reindex(place, embedder, chunk_size=0)
    assert [len(chunk.text) for chunk in collection.chunks("d1")] == long
    before = embedder.embedded
    assert before > 0
    reindex(place, embedder)
    assert embedder.embedded == before


def test_vectors_of_an_earlier_version_get_half_precision(
    new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    place = new_place("embedded")
    first = opened(place).create("docs")
    fill(first, tmp_path, 3)
    first.close()
    (file,) = Path(place).rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_2(connection)
    connection.close()
    embedder = HashEmbedder()
    collection = opened(place).collection("docs")
    before = collection.search("zebra of d1", 10)
    reindex(place, embedder)
    assert collection.stats().vector_dtype == "float32"
    reindex(place, embedder, vector_dtype="float16")
    assert collection.stats().vector_dtype == "float16"
    assert embedder.embedded == 0
    assert [passage.chunk_id for passage in collection.search("zebra of d1", 10)] == [one.chunk_id for one in before]
    reindex(place, embedder, vector_dtype="float32")  # what was rounded is not what the embedder gives
    assert embedder.embedded > 0


def test_what_changes_meanwhile_is_in_the_new_index(
    place: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.moving.mirror.RUN_CHUNKS", 1)
    collection = opened(place).create("docs")
    fill(collection, tmp_path)
    changed: list[str] = []

    def change(done: int, total: int, name: str) -> None:
        if done == 3 and not changed:
            changed.append(name)
            collection.ingest([text_source("d0", "A new text of an indexed one."), text_source("d6", "Changed.")])
            collection.ingest([text_source("new")])
            collection.delete("d1")
            collection.delete("d7")
            assert ids(collection) == ["d0", "d2", "d3", "d4", "d5", "d6", "file", "new", "pages"]

    reindex(place, HashEmbedder(32), progress=change)
    assert changed
    after = opened(place, HashEmbedder(32)).collection("docs")
    assert ids(after) == ["d0", "d2", "d3", "d4", "d5", "d6", "file", "new", "pages"]
    assert after.get("d0").text == "A new text of an indexed one."
    assert after.search("new7 new8 new9", 1)[0].document_id == "new"
    assert "d1" not in {passage.document_id for passage in after.search("zebra of d1", 50)}


class Telling(HashEmbedder):
    """Says when it has embedded something."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded_now = threading.Event()

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        vectors = super().embed_documents(texts)
        self.embedded_now.set()
        return vectors


@pytest.mark.parametrize("size", [None, 200])
def test_a_change_that_waits_for_the_exchange_goes_into_the_new_index(
    place: str,
    opened: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int | None,
    postgres: PostgresServer,
) -> None:
    """It was read and embedded for the old index; nothing else changes it between."""
    embedder = Telling()
    writer = opened(place, embedder).create("docs")
    fill(writer, tmp_path, 2)
    text = text_source("late").text or ""
    late = [SourceDocument(document_id="late", text=text)]
    embedder.embedded_now.clear()
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(writer.ingest(late)))
    stores = EmbeddedStores if "://" not in place else PostgresStores
    really: Any = stores.exchanging
    connected = threading.Event()
    borrow = store.Store._borrow

    def borrowed(self: store.Store) -> Any:
        connection = borrow(self)
        if threading.current_thread() is thread and embedder.embedded_now.is_set():
            connected.set()  # to the old file
        return connection

    monkeypatch.setattr(store.Store, "_borrow", borrowed)

    def waits() -> bool:
        """Whether the writer has begun its transaction."""
        if stores is EmbeddedStores:
            return connected.is_set()
        return postgres.execute("SELECT count(*) FROM pg_locks WHERE NOT granted") != [(0,)]

    @contextlib.contextmanager
    def exchanging(self: Any, name: str) -> Iterator[Callable[[str], None]]:
        with really(self, name) as exchange:

            def later(other: str) -> None:
                thread.start()
                assert embedder.embedded_now.wait(60)
                deadline = time.monotonic() + 60
                while not waits():
                    assert time.monotonic() < deadline
                exchange(other)

            yield later

    monkeypatch.setattr(stores, "exchanging", exchanging)
    reindex(place, chunk_size=size)
    thread.join()
    assert outcome[0].added == ("late",)
    reader = opened(place).collection("docs")
    assert ids(reader) == ["d0", "d1", "file", "late", "pages"]
    if size:
        assert max(len(chunk.text.encode()) for chunk in reader.chunks("late")) <= 270
    assert reader.search("zebra of late", 1)[0].document_id == "late"


def test_what_changed_at_the_last_moment_is_in_the_new_index(
    place: str, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the new index agreed with the old one, and before changes wait."""
    collection = opened(place).create("docs")
    fill(collection, tmp_path, 3)
    stores = EmbeddedStores if "://" not in place else PostgresStores
    really: Any = stores.exchanging

    def exchanging(self: Any, name: str) -> Any:
        collection.delete("d0")
        collection.ingest([text_source("d1", "Changed."), text_source("last")])
        return really(self, name)

    monkeypatch.setattr(stores, "exchanging", exchanging)
    reindex(place, HashEmbedder(32))
    after = opened(place, HashEmbedder(32)).collection("docs")
    assert ids(after) == ["d1", "d2", "file", "last", "pages"]
    assert after.get("d1").text == "Changed."
    assert after.search("last7 last8", 1)[0].document_id == "last"


def test_readers_with_a_snapshot_go_on(place: str, opened: Open, tmp_path: Path) -> None:
    collection = opened(place).create("docs")
    fill(collection, tmp_path, 2)
    embedder = HashEmbedder()
    original = collection.original("file")
    assert original is not None
    pieces = original.pieces
    content = next(pieces)
    with collection._store.search() as snapshot:
        chunks = snapshot.chunks("d1")
        reindex(place, chunk_size=200)
        assert snapshot.chunks("d1") == chunks
        ((row, cosine),) = snapshot.nearest(embedder.embed_query("zebra of d1"), 1)()
        assert snapshot.chunks_at([row])[row].document_id == "d1"
        assert cosine > 0
    assert len(collection.chunks("d1")) > len(chunks)
    assert content + b"".join(pieces) == FILE  # read on in the new index


def test_an_index_file_of_the_old_index_never_gets_into_the_new_one(
    new_place: Callable[[str], str], opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FEW", 0)
    place = new_place("embedded")
    collection = opened(place).create("docs")
    fill(collection, tmp_path, 3)
    collection.search("zebra")
    held = collection._store._index  # type: ignore[attr-defined]
    inode = collection._store._file.inode()  # type: ignore[attr-defined]
    reindex(place, chunk_size=200)
    file = Path(place) / "collections" / "docs" / index.FILE_NAME
    before = file.read_bytes()
    held.save(inode)  # as of a process that was between its search and its save
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.glob("vectors*")) == [index.FILE_NAME]
    held.save(collection._store._file.inode())  # type: ignore[attr-defined]
    assert file.read_bytes() != before


def test_an_index_that_is_prepared_waits_and_forgets_what_is_deleted(place: str, opened: Open, tmp_path: Path) -> None:
    library = opened(place)
    collection = library.create("docs")
    fill(collection, tmp_path, 3)
    new = HashEmbedder(32)
    assert reindex(place, new, exchange=False) == ReindexReport("docs", 5, 5, False)
    assert collection.search("zebra of d1", 1)[0].document_id == "d1"
    collection.delete("d1")
    stores = stores_at(place)
    hidden = stores.open(reindexed("docs"))
    with hidden.read() as snapshot:
        assert snapshot.document("d1") is None
        assert snapshot.document("d2") is not None
    hidden.close()
    with pytest.raises(RetrieverError, match=r"unfinished index .* model hash-32, .* remove it with --cancel"):
        reindex(place, HashEmbedder(48))
    collection.ingest([text_source("d3")])
    assert reindex(place, new) == ReindexReport("docs", 5, 1, True)
    assert ids(collection) == ["d0", "d2", "d3", "file", "pages"]
    reindex(place, HashEmbedder(), exchange=False)
    assert cancel_reindex(stores, "docs")
    assert not cancel_reindex(stores, "docs")
    assert stores.names() == ["docs"]
    reindex(place, HashEmbedder(), exchange=False)
    library.delete("docs")
    assert stores.names() == []
    stores.close()


def test_a_collection_that_is_deleted_meanwhile(place: str, opened: Open, tmp_path: Path) -> None:
    library = opened(place)
    fill(library.create("docs"), tmp_path, 3)

    def delete(done: int, total: int, name: str) -> None:
        if "docs" in library.collections():
            library.delete("docs")

    with pytest.raises((UnknownCollection, RetrieverError)):
        reindex(place, HashEmbedder(32), progress=delete)
    stores = stores_at(place)
    assert stores.names() == []
    stores.close()
    with pytest.raises(UnknownCollection):
        reindex(place, HashEmbedder(32))
    with pytest.raises(ValueError, match="from 100 to 20000"):
        reindex(place, chunk_size=99)


def test_an_ingest_that_runs_again_knows_what_it_stored(place: str, opened: Open, tmp_path: Path) -> None:
    """One whose process died before the exchange does not bring back what was deleted since."""
    collection = opened(place).create("docs")
    sources = [text_source("a"), text_source("b")]
    collection.ingest(sources, job="job")
    collection.delete("a")
    reindex(place, chunk_size=200)
    assert collection.ingest(sources, job="job").unchanged == ("a", "b")
    assert ids(collection) == ["b"]


def test_a_copy_of_what_was_reindexed(
    place: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    from retriever import copy_collection

    collection = opened(place).create("docs")
    fill(collection, tmp_path, 3)
    reindex(place, chunk_size=300)
    target = new_place("embedded")
    here, there = stores_at(place), stores_at(target)
    copy_collection(here, "docs", there)
    here.close()
    twin = opened(target).collection("docs")
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)
