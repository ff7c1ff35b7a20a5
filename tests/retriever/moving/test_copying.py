"""A copy is the same collection in any store, and follows its source when it is copied again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from retriever import (
    Collection,
    CollectionMismatch,
    InvalidName,
    SourceDocument,
    UnknownCollection,
    copy_collection,
)
from retriever.stores import store
from retriever.stores.hidden import copied
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.earlier_layouts import to_layout_2
from tests.support.storage.moving import (
    Open,
    assert_same_documents,
    assert_same_index,
    fill,
    ids,
    stores_at,
    text_source,
)

KINDS = [("embedded", "postgres"), ("postgres", "embedded"), ("embedded", "embedded"), ("postgres", "postgres")]


def copy(source: str, target: str, new_name: str | None = None, **options: object) -> tuple[int, int, int]:
    here, there = stores_at(source), stores_at(target)
    try:
        report = copy_collection(here, "docs", there, new_name, **options)  # type: ignore[arg-type]
    finally:
        here.close()
        there.close()
    return report.documents, report.stored, report.removed


@pytest.mark.parametrize(("kind", "other"), KINDS)
def test_a_copy_is_the_same(
    kind: str, other: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    source, target = new_place(kind), new_place(other)
    collection = opened(source).create("docs")
    fill(collection, tmp_path)
    embedder = HashEmbedder()
    assert copy(source, target, "twin") == (10, 10, 0)
    twin = opened(target, embedder).collection("twin")
    assert twin.stats().name == "twin"
    assert twin.stats().created == collection.stats().created
    assert twin.stats().generation >= collection.stats().generation
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)
    assert embedder.calls == []
    assert copy(source, target, "twin") == (10, 0, 0)
    # What was copied once is found unchanged by the next ingest
    assert twin.ingest([text_source("d1")]).unchanged == ("d1",)


@pytest.mark.parametrize("kind", ["embedded", "postgres"])
def test_within_one_store_and_for_one_tenant(
    kind: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    place = new_place(kind)
    library = opened(place)
    theirs = library.of("theirs").create("docs")
    fill(theirs, tmp_path, 2)
    stores = stores_at(place)
    copy_collection(stores.of("theirs"), "docs", stores.of("theirs"), "twin")
    stores.close()
    assert library.collections() == []
    assert_same_index(theirs, library.of("theirs").collection("twin"))
    with pytest.raises(CollectionMismatch, match="is the collection that is to be copied"):
        copy_collection(stores.of("theirs"), "docs", stores.of("theirs"))
    stores.close()


@pytest.mark.parametrize(("kind", "other"), KINDS[:2])
def test_changes_meanwhile_and_between_runs_are_copied(
    kind: str,
    other: str,
    new_place: Callable[[str], str],
    opened: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retriever.moving.mirror.RUN_CHUNKS", 1)
    source, target = new_place(kind), new_place(other)
    collection = opened(source).create("docs")
    fill(collection, tmp_path)
    library = opened(target)
    changed: list[str] = []

    def change(done: int, total: int, name: str) -> None:
        with pytest.raises(UnknownCollection):
            library.collection("docs")  # nobody sees half of it
        assert library.collections() == []
        if done != 3 or changed:
            return
        changed.append(name)
        collection.ingest([text_source("d0", "A new text of a copied one."), text_source("d6", "Changed.")])
        collection.ingest([text_source("new")])
        collection.delete("d1")
        collection.delete("d7")

    copy(source, target, progress=change)
    twin = library.collection("docs")
    assert changed == ["d2"]
    assert ids(twin) == ["d0", "d2", "d3", "d4", "d5", "d6", "file", "new", "pages"]
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)
    collection.delete("new")
    collection.delete("d2")
    collection.ingest([text_source("d2")])  # the same content at another time
    collection.ingest([text_source("d3", "Later.")])
    assert copy(source, target) == (8, 2, 2 - 1)
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)


@pytest.mark.parametrize(("kind", "other"), KINDS[:2])
def test_a_target_that_is_no_copy_is_left_alone(
    kind: str, other: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    source, target = new_place(kind), new_place(other)
    fill(opened(source).create("docs"), tmp_path, 2)
    theirs = opened(target)
    theirs.create("docs").ingest([SourceDocument(document_id="mine", text="Mine.")])
    with pytest.raises(CollectionMismatch, match="'docs' has documents that this copy did not bring; choose another"):
        copy(source, target)
    assert ids(theirs.collection("docs")) == ["mine"]
    opened(target, HashEmbedder(32)).create("other").close()
    with pytest.raises(CollectionMismatch, match=r"another index \(embedding model hash-32 and not hash-64, dimension"):
        copy(source, target, "other")
    copy(source, target, "good")
    theirs.collection("good").ingest([text_source("mine")], job="of the service")
    with pytest.raises(CollectionMismatch, match="did not bring"):
        copy(source, target, "good")
    assert "mine" in ids(theirs.collection("good"))
    # also while it is brought up to date
    copy(source, target, "later")
    opened(source).collection("docs").delete("d0")
    intruded = []

    def intrude(done: int, total: int, name: str) -> None:
        if not intruded:
            intruded.append(theirs.collection("later").ingest([text_source("mine")], job="of the service"))

    with pytest.raises(CollectionMismatch, match="did not bring"):
        copy(source, target, "later", progress=intrude)
    assert "mine" in ids(theirs.collection("later"))
    theirs.create("empty")
    assert copy(source, target, "empty") == (3, 3, 0)


def test_names_are_checked(new_place: Callable[[str], str], opened: Open) -> None:
    source, target = new_place("embedded"), new_place("embedded")
    opened(source).create("docs")
    with pytest.raises(InvalidName):
        copy(source, target, copied("docs"))
    with pytest.raises(UnknownCollection, match="did you mean 'docs'"):
        copy_collection(stores_at(source), "doc", stores_at(target))
    assert copy(source, target) == (0, 0, 0)
    assert opened(target).collections() == ["docs"]


@pytest.mark.parametrize("other", ["embedded", "postgres"])
def test_vectors_of_an_earlier_version_stay_in_single_precision(
    other: str, new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    source, target = new_place("embedded"), new_place(other)
    first = opened(source).create("docs")
    fill(first, tmp_path, 3)
    first.close()
    (file,) = Path(source).rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_2(connection)
    connection.close()
    collection: Collection = opened(source).collection("docs")
    copy(source, target)
    twin = opened(target).collection("docs")
    assert twin.stats().vector_dtype == "float32"
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)


def test_an_unfinished_copy_of_another_collection_is_replaced(
    new_place: Callable[[str], str], opened: Open, tmp_path: Path
) -> None:
    source, target = new_place("embedded"), new_place("embedded")
    collection = opened(source).create("docs")
    fill(collection, tmp_path, 2)

    def stop(done: int, total: int, name: str) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, target, progress=stop)
    assert stores_at(target).exists(copied("docs"))
    opened(source).delete("docs")
    collection = opened(source).create("docs")
    collection.ingest([text_source("x")])
    assert copy(source, target) == (1, 1, 0)
    assert not stores_at(target).exists(copied("docs"))
    assert ids(opened(target).collection("docs")) == ["x"]
