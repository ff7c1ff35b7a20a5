"""Collections that are moved: places for them, documents of every kind, and whether two collections are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from retriever import Collection, Library, LoadedDocument, SourceDocument, reindex_collection
from retriever.moving.reindexing import ReindexReport
from retriever.store_url import open_stores
from retriever.stores.protocol import Store, Stores
from retriever.stores.records import NewDocument
from retriever.stores.splitter import Splitter
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer
from tests.support.storage.stores import assert_same_passages

Open = Callable[..., Library]
"""Opens the library of a place."""
FILE = b"<h1>Foxes</h1><p>Foxes jump over dogs.</p><!--" + b"0123456789" * 150_000 + b"-->"
"""Of more than one piece."""


def stores_at(place: str) -> Stores:
    """The stores of a database's URL or of a folder."""
    return open_stores(place, Path()) if "://" in place else open_stores(None, Path(place))


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens the library of a place; closed afterwards."""
    with ExitStack() as stack:

        def library(place: str, embedder: HashEmbedder | None = None) -> Library:
            made = Library(Path("unused"), embedder or HashEmbedder(), stores=stores_at(place), keep_originals=True)
            stack.callback(made.close)
            return made

        yield library


@pytest.fixture
def new_place(postgres: PostgresServer, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Gives an empty place of a kind: a new folder, or the URL of a new database."""
    with ExitStack() as stack:
        folders = (str(tmp_path / f"data {number}") for number in range(100))

        def place(kind: str) -> str:
            return next(folders) if kind == "embedded" else stack.enter_context(postgres.database())

        yield place


def text_source(identity: str, text: str | None = None) -> SourceDocument:
    words = " ".join(f"{identity}{number}" for number in range(40))
    text = text or f"# About {identity}\n\nA zebra of {identity}.\n\n## Words\n\n{words}\n\n" + f"Old {identity}. " * 90
    return SourceDocument(document_id=identity, text=text, metadata={"tags": [identity, "all"], "date": "2026-01-02"})


def fill(collection: Collection, folder: Path, count: int = 8) -> None:
    """Texts with headings, a file that is kept, and a document with pages."""
    file = folder / "foxes.html"
    file.write_bytes(FILE)
    sources = [text_source(f"d{number}") for number in range(count)]
    report = collection.ingest([*sources, SourceDocument(name="foxes.html", path=file, document_id="file")], job="job")
    assert not report.failures
    put_pages(collection._store, collection._embedder)  # type: ignore[arg-type]


def put_pages(store: Store, embedder: HashEmbedder) -> None:
    """A document with pages, as a PDF has."""
    loaded = LoadedDocument("Pages", "First page of zebras.\nSecond page of lions.\n", "plain", (0, 22))
    split = Splitter(embedder).split(loaded)
    new = NewDocument("pages", "p.pdf", loaded, "hash", {"n": 1}, split.chunks, split.texts, split.hashes)
    with store.write() as transaction:
        transaction.put(new, list(embedder.embed_documents(split.texts)))
        transaction.record_stored("job", ["pages"])


def kept(collection: Collection, document_id: str) -> bytes | None:
    original = collection.original(document_id)
    return None if original is None else b"".join(original.pieces)


def ids(collection: Collection) -> list[str]:
    return [info.id for info in collection.documents(limit=1000)]


def assert_same_documents(one: Collection, other: Collection) -> None:
    """The same documents, with their times and original files."""
    assert ids(one) == ids(other)
    for identity in ids(one):
        here, there = one.get(identity), other.get(identity)
        assert (here.text, here.pages, here.title, here.name, here.kind) == (
            there.text, there.pages, there.title, there.name, there.kind,
        )  # fmt: skip
        assert (here.metadata, here.content_hash, here.updated) == (there.metadata, there.content_hash, there.updated)
        assert kept(one, identity) == kept(other, identity)


def assert_same_index(one: Collection, other: Collection) -> None:
    """The same chunks with the same numbers, and the same passages for every question."""
    here, there = one.stats(), other.stats()
    for fact in ("documents", "chunks", "bytes", "embedder", "dimension", "vector_dtype", "embedder_dtype"):
        assert getattr(here, fact) == getattr(there, fact), fact
    for identity in ids(one):
        assert one.chunks(identity) == other.chunks(identity)
    with one._store.read() as snapshot, other._store.read() as twin:
        assert snapshot.facts().chunk_size == twin.facts().chunk_size
        assert (snapshot.totals(), snapshot.languages()) == (twin.totals(), twin.languages())
        for identity in ids(one):
            vectors, twins = snapshot.kept_vectors(identity), twin.kept_vectors(identity)
            assert [(digest, vector.tolist()) for digest, vector in vectors] == [
                (digest, vector.tolist()) for digest, vector in twins
            ]
    for mode in ("dense", "lexical", "hybrid"):
        for question in ("zebra", "d1 d2", "fox jumps over dogs", "old words of d3", "lions page"):
            for where in (None, {"tags": {"$contains": "d3"}}, {"n": 1}):
                assert_same_passages(
                    other.search(question, 50, mode, where),  # type: ignore[arg-type]
                    one.search(question, 50, mode, where),  # type: ignore[arg-type]
                    mode,
                )


def reindex(place: str, embedder: HashEmbedder | None = None, **options: Any) -> ReindexReport:
    stores = stores_at(place)
    try:
        return reindex_collection(stores, "docs", embedder or HashEmbedder(), **options)
    finally:
        stores.close()


def twin_of(collection: Collection, place: str, embedder: HashEmbedder, folder: Path) -> Collection:
    """A collection of the same documents that never was another."""
    twin = Library(Path("unused"), embedder, stores=stores_at(place)).create("docs")
    for identity in ids(collection):
        if identity not in ("file", "pages"):
            document = collection.get(identity)
            twin.ingest([SourceDocument(document_id=identity, text=document.text, metadata=document.metadata)])
    return twin
