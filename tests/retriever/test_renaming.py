"""Collections under another name, in both stores."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from retriever import CollectionExists, CollectionInUse, InvalidName, Library, SourceDocument, UnknownCollection
from retriever.embedded.stores import EmbeddedStores
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")


def library(folder: Path) -> Library:
    return Library(folder, HashEmbedder())


def source(identity: str, text: str) -> SourceDocument:
    return SourceDocument(document_id=identity, text=text)


def found(holder: Library, question: str, name: str = "docs") -> list[str]:
    return sorted(passage.document_id for passage in holder.collection(name).search(question, 10))


def test_a_renamed_collection_is_the_same_under_another_name(tmp_path: Path) -> None:
    """Also for those who hold it open: under the new name, and no longer under the old one."""
    holder, other = library(tmp_path), library(tmp_path)
    holder.create("docs").ingest([source("a", "zebra")])
    held = other.collection("docs")
    assert found(other, "zebra") == ["a"]
    before = held.stats()
    renamed = holder.rename("docs", "papers")
    assert renamed is holder.collection("papers")
    assert holder._stores.key("docs") not in holder._open_collections._open
    assert renamed.stats() == replace(before, name="papers")
    for each in (holder, other):
        assert each.collections() == ["papers"]
        assert found(each, "zebra", "papers") == ["a"]
        with pytest.raises(UnknownCollection, match="'docs'"):
            each.collection("docs")
    for call in (held.stats, lambda: held.search("zebra"), lambda: held.ingest([source("b", "zebra")])):
        with pytest.raises(UnknownCollection, match="'docs'"):
            call()
    other.create("docs").ingest([source("c", "zebra")])
    assert held.search("zebra")[0].document_id == "c", "another collection of the old name"
    held.ingest([source("d", "quagga")])
    other.collection("papers").ingest([source("b", "zebra")])
    assert (found(holder, "zebra"), found(holder, "zebra", "papers")) == (["c", "d"], ["a", "b"])
    other.rename("papers", "again")
    assert found(holder, "zebra", "again") == ["a", "b"]


def test_a_collection_is_not_renamed_to_what_it_cannot_be_called(tmp_path: Path) -> None:
    holder = library(tmp_path)
    for name in ("docs", "papers"):
        holder.create(name).ingest([source(name, "zebra")])
    for new in ("papers", "docs"):
        with pytest.raises(CollectionExists, match=repr(new)):
            holder.rename("docs", new)
    for one, new in (("docs", "../up"), (".hidden", "x")):
        with pytest.raises(InvalidName):
            holder.rename(one, new)
    with pytest.raises(UnknownCollection, match="'none'"):
        holder.rename("none", "x")
    limited = holder.only(frozenset({"docs", "x"}))
    for one, new in (("none", "x"), ("papers", "x"), ("docs", "y")):
        with pytest.raises(UnknownCollection):
            limited.rename(one, new)
    holder._stores.create(".reindex-docs", "hash", 8, "float32")
    with pytest.raises(CollectionInUse, match="being built anew"):
        holder.rename("docs", "x")
    assert holder.collections() == ["docs", "papers"]
    assert (found(holder, "zebra"), found(holder, "zebra", "papers")) == (["docs"], ["papers"])
    holder._stores.delete(".reindex-docs")
    assert limited.rename("docs", "x").stats().documents == 1


def test_a_change_under_way_is_stored_when_its_collection_is_renamed(tmp_path: Path) -> None:
    """In the folder's file at once; in PostgreSQL, the new name waits for it."""
    holder, other = library(tmp_path), library(tmp_path)
    collection = holder.create("docs")
    collection.ingest([source("a", "zebra"), source("b", "zebra")])
    renaming = threading.Thread(target=other.rename, args=("docs", "papers"))
    with collection._store.write() as transaction:
        renaming.start()
        if isinstance(other._stores, EmbeddedStores):
            renaming.join(30)
        transaction.delete("a")
    renaming.join(30)
    assert found(other, "zebra", "papers") == ["b"]


def test_one_of_two_renames_to_the_same_name_wins(tmp_path: Path) -> None:
    holder = library(tmp_path)
    for number in range(8):
        holder.create(f"c{number}").ingest([source(f"d{number}", "zebra")])
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def rename(number: int) -> None:
        start.wait()
        try:
            holder.rename(f"c{number}", "one")
            outcomes.append(f"d{number}")
        except CollectionExists:
            pass

    threads = [threading.Thread(target=rename, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert found(holder, "zebra", "one") == outcomes
    assert len(holder.collections()) == 8
