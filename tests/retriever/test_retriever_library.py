"""Collections by name, and several holders of one folder."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import faiss
import numpy as np
import pytest

from retriever import (
    CollectionBusy,
    CollectionExists,
    DiskFull,
    InvalidName,
    Library,
    RetrieverError,
    SourceDocument,
    UnknownCollection,
)
from retriever.open_collections import OpenCollections
from retriever.search import index
from retriever.stores import store
from tests.support.hash_embedder import HashEmbedder


def library(folder: Path) -> Library:
    return Library(folder, HashEmbedder())


def source(identity: str, text: str) -> SourceDocument:
    return SourceDocument(document_id=identity, text=text)


def found(holder: Library, question: str, name: str = "docs") -> list[str]:
    return [passage.document_id for passage in holder.collection(name).search(question, 10)]


@pytest.mark.usefixtures("either_store")
def test_a_collection_that_is_deleted_while_all_are_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = library(tmp_path)
    holder.create("docs")
    monkeypatch.setattr(holder, "collections", lambda: ["docs", "gone"])
    assert [one.name for one in holder.stats()] == ["docs"]
    holder.close()


@pytest.mark.usefixtures("either_store")
def test_collections_are_created_listed_and_deleted(tmp_path: Path) -> None:
    holder = library(tmp_path / "not" / "there" / "yet")
    assert holder.collections() == []
    holder.create("b")
    created = holder.create("A-1_x")
    assert holder.collection("A-1_x") is created
    assert holder.collections() == ["A-1_x", "b"]
    with pytest.raises(CollectionExists, match="'b'"):
        holder.create("b")
    assert holder.create("b", exist_ok=True) is holder.collection("b")
    holder.delete("b")
    assert holder.collections() == ["A-1_x"]
    for call in (holder.collection, holder.delete):
        with pytest.raises(UnknownCollection, match="'b'"):
            call("b")


@pytest.mark.usefixtures("either_store")
def test_open_collections_are_bounded_and_one_in_use_stays(tmp_path: Path) -> None:
    opened = OpenCollections(most=2)
    holder = Library(tmp_path, HashEmbedder(), open_collections=opened)
    held = holder.create("held")
    held.ingest([source("a", "apples")])
    for number in range(5):
        holder.of(f"t{number}").create("docs").ingest([source("a", f"apples {number}")])
    assert len(opened._open) <= 3
    assert holder.collection("held") is held
    assert found(holder, "apples", "held") == ["a"]
    for number in range(5):
        assert found(holder.of(f"t{number}"), "apples") == ["a"]
    assert len(opened._open) <= 3
    holder.close()
    assert not opened._open


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a collection's file cannot grow, as on a full disk."""
    connect = store.Store._connect

    def connect_full(self: store.Store) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size where it is larger
        return connection

    monkeypatch.setattr(store.Store, "_connect", connect_full)


def test_a_full_disk_leaves_a_collection_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path).create("docs").ingest([source("a", "apples")])
    with monkeypatch.context() as patch:
        full(patch)
        later = library(tmp_path)
        with pytest.raises(DiskFull, match="disk is full"):
            later.collection("docs").ingest([source("b", "bananas " * 20_000)])
        assert found(later, "apples") == ["a"]
        later.close()
    again = library(tmp_path)
    again.collection("docs").ingest([source("b", "bananas")])
    assert set(found(again, "bananas")) == {"a", "b"}


def test_a_collection_that_finds_no_room_to_open_is_not_said_to_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(tmp_path).create("docs").ingest([source("a", "apples")])

    def connect(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error

    later = library(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("retriever.stores.store.sqlite3.connect", connect)
        with pytest.raises(RetrieverError, match="cannot be opened"):
            found(later, "apples")
        patch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=0))
        with pytest.raises(DiskFull, match="disk is full"):
            found(later, "apples")
    assert found(later, "apples") == ["a"]


def test_an_index_that_finds_no_room_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_index(*_: object) -> None:
        raise RuntimeError("Error: 'ret == (n)' failed: write error: No space left on device")

    monkeypatch.setattr("faiss.write_index", write_index)
    report = library(tmp_path).create("docs").ingest([source("a", "apples")])
    assert report.added == ("a",)
    assert found(library(tmp_path), "apples") == ["a"]


@pytest.mark.usefixtures("either_store")
@pytest.mark.parametrize("name", ["", "-a", "_a", "a b", "a/b", "..", ".", "a\n", "ä", "a" * 65, "a\0"])
def test_names_are_checked(tmp_path: Path, name: str) -> None:
    holder = library(tmp_path)
    for call in (holder.create, holder.collection, holder.delete):
        with pytest.raises(InvalidName, match="1 to 64"):
            call(name)


@pytest.mark.usefixtures("either_store")
def test_two_holders_see_each_others_changes(tmp_path: Path) -> None:
    writer, reader = library(tmp_path), library(tmp_path)
    writer.create("docs").ingest([source("a", "apples"), source("b", "bananas")])
    assert found(reader, "apples")[0] == "a"
    writer.collection("docs").ingest([source("c", "cherries"), source("a", "avocados")])
    assert found(reader, "cherries")[0] == "c"
    assert reader.collection("docs").search("avocados", 1, "dense")[0].text == "avocados"
    writer.collection("docs").delete("c")
    assert "c" not in found(reader, "cherries")
    assert len(reader.collection("docs").search("apples", 10, "dense")) == 2


def test_another_process_ingests_while_this_one_searches(tmp_path: Path) -> None:
    reader = library(tmp_path)
    reader.create("docs").ingest([source("a", "apples")])
    assert found(reader, "zebra") == ["a"]
    script = (
        "import sys; from pathlib import Path; from retriever import *\n"
        "from tests.support.hash_embedder import HashEmbedder\n"
        "collection = Library(Path(sys.argv[1]), HashEmbedder()).collection('docs')\n"
        "collection.ingest([SourceDocument(document_id='z', text='zebra')])"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert found(reader, "zebra")[0] == "z"


@pytest.mark.usefixtures("either_store")
def test_a_collection_made_anew_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    first, second = library(tmp_path), library(tmp_path)
    first.create("docs").ingest([source("old", "apples")])
    held = second.collection("docs")
    assert found(second, "apples") == ["old"]
    first.delete("docs")
    with pytest.raises(UnknownCollection):
        held.search("apples")
    with pytest.raises(UnknownCollection):
        held.ingest([source("x", "x")])
    first.create("docs").ingest([source("new", "pears")])
    assert [passage.document_id for passage in held.search("apples", 10, "dense")] == ["new"]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index files are written after every change, as in large collections after many."""
    monkeypatch.setattr(index, "FEW", 0)
    monkeypatch.setattr(index, "FEW_SHARE", 0.0)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("damage", ["missing", "old", "broken", "empty", "lacks"])
def test_the_index_file_is_only_a_cache(tmp_path: Path, damage: str) -> None:
    collection = library(tmp_path).create("docs")
    file = tmp_path / "collections" / "docs" / "vectors.faiss"
    collection.ingest([source("a", "apples"), source("b", "bananas")])
    shutil.copy(file, tmp_path / "old")
    collection.ingest([source("b", "blueberries"), source("c", "cherries")])
    expected = collection.search("cherries", 10, "dense")
    if damage == "lacks":
        held = faiss.read_index(str(file))
        held.remove_ids(np.array([faiss.vector_to_array(held.id_map).min()]))
        faiss.write_index(held, str(file))
    elif damage == "missing":
        file.unlink()
    elif damage == "old":
        shutil.copy(tmp_path / "old", file)
    else:
        file.write_bytes(b"" if damage == "empty" else b"not an index" * 10)
    assert library(tmp_path).collection("docs").search("cherries", 10, "dense") == expected


def test_a_few_changes_write_no_file(tmp_path: Path) -> None:
    collection = library(tmp_path).create("docs")
    collection.ingest([source(f"d{number}", f"text {number}") for number in range(20)])
    collection.delete("d3")
    collection.ingest([source("d4", "another text"), source("d5", "and one more")])
    collection.delete("d6")
    assert list((tmp_path / "collections" / "docs").glob("vectors*")) == []
    opened = library(tmp_path).collection("docs")
    for question in ("text 3", "text 4", "another text"):
        assert collection.search(question, 100, "dense") == opened.search(question, 100, "dense")
        assert len(collection.search(question, 100, "dense")) == 18


def test_many_deleted_chunks_leave_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FEW", 3)
    collection = library(tmp_path).create("docs")
    collection.ingest([source(f"d{number}", f"text {number}") for number in range(20)])
    for number in range(12):
        collection.delete(f"d{number}")
        found = collection.search("text", 100, "dense")
        assert {passage.document_id for passage in found} == {f"d{kept}" for kept in range(number + 1, 20)}


@pytest.mark.usefixtures("written")
def test_no_index_file_is_left_half_written(tmp_path: Path) -> None:
    folder = tmp_path / "collections" / "docs"
    library(tmp_path).create("docs")
    (folder / "vectors.faiss.1.tmp").write_bytes(b"of a process that was killed")
    library(tmp_path).collection("docs").ingest([source("a", "apples")])
    assert sorted(path.name for path in folder.glob("vectors*")) == ["vectors.faiss"]


@pytest.mark.usefixtures("either_store")
def test_one_collection_serves_many_threads(tmp_path: Path) -> None:
    holder = library(tmp_path)
    collection = holder.create("docs")
    collection.ingest([source("a", "apples")])
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                if number % 2:
                    collection.ingest([source(f"d{number}", f"text {turn}")])
                else:
                    assert collection.search("apples", 1)[0].document_id == "a"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert collection.stats().documents == 4
    holder.close()
    assert collection.stats().documents == 4


def test_a_writer_that_waits_too_long_says_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.0)
    collection = library(tmp_path).create("docs")
    other = sqlite3.connect(tmp_path / "collections" / "docs" / store.FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CollectionBusy, match="try again"):
        collection.ingest([source("a", "apples")])
    other.execute("ROLLBACK")
    other.close()
    assert collection.ingest([source("a", "apples")]).added == ("a",)


def test_a_database_of_another_version_or_a_broken_one_is_named(tmp_path: Path) -> None:
    library(tmp_path).create("docs")
    file = tmp_path / "collections" / "docs" / store.FILE_NAME
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RetrieverError, match="layout 99"):
        library(tmp_path).collection("docs").stats()
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(RetrieverError, match="cannot be opened"):
        library(tmp_path).collection("docs").stats()


@pytest.mark.usefixtures("either_store")
def test_tenants_have_collections_of_their_own(tmp_path: Path) -> None:
    holder = library(tmp_path)
    assert holder.of("default") is holder
    theirs = holder.of("acme")
    assert holder.of("acme").create("shared", exist_ok=True) is theirs.create("shared", exist_ok=True)
    theirs.delete("shared")
    theirs.create("notes")
    assert (holder.collections(), theirs.collections(), holder.of("other").collections()) == ([], ["notes"], [])
    with pytest.raises(UnknownCollection):
        holder.collection("notes")
    holder.create("notes")
    holder.delete("notes")
    assert theirs.collections() == ["notes"]
    for name in ("", "../up", "a/b", ".hidden"):
        with pytest.raises(InvalidName):
            holder.of(name)
    holder.close()
    again = library(tmp_path)
    assert again.of("acme").collections() == ["notes"]
    again.close()
