"""A copy or reindex that is killed at any place leaves what serves as it was, and goes on when it runs again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retriever import Library, Progress, copy_collection, reindex_collection
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.moving import assert_same_documents, assert_same_index, fill, ids, stores_at

# Moves the collection `docs`, and stops for ever at the given place, after a line on stdout.
SCRIPT = """
import contextlib, sys, threading
from retriever import copy_collection, reindex_collection
from retriever.embedded.stores import EmbeddedStores
from retriever.moving import mirror
from retriever.postgres.stores import PostgresStores
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.moving import stores_at

what, source, target, place, run_chunks, size = sys.argv[1:7]
mirror.RUN_CHUNKS = int(run_chunks)
calls = 0

def reached(name):
    global calls
    if place == "anywhere" and name == "put":
        print("here", flush=True)
    if place.partition(" ")[0] == name:
        calls += 1
        if calls == int(place.partition(" ")[2] or 1):
            print("here", flush=True)
            threading.Event().wait()

def put(*arguments, really=mirror._put):
    reached("put")
    really(*arguments)

mirror._put = put
for kind in (EmbeddedStores, PostgresStores):
    def rename(self, *names, really=kind.rename):
        reached("rename")
        return really(self, *names)

    @contextlib.contextmanager
    def exchanging(self, name, really=kind.exchanging):
        with really(self, name) as exchange:
            def exchanged(other):
                reached("exchange")
                exchange(other)
                reached("exchanged")
            yield exchanged

    def delete(self, name, really=kind.delete):
        reached("delete")
        return really(self, name)

    kind.rename, kind.exchanging, kind.delete = rename, exchanging, delete

if what == "copy":
    copy_collection(stores_at(source), "docs", stores_at(target))
else:
    reindex_collection(stores_at(source), "docs", HashEmbedder(32), chunk_size=int(size))
"""


def killed(what: str, source: str, target: str, place: str, run_chunks: int = 256, lines: int = 1) -> None:
    command = [sys.executable, "-c", SCRIPT, what, source, target, place, str(run_chunks), "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            assert process.stdout.readline() == "here\n"
        process.kill()
    assert process.returncode == -9


def run(what: str, source: str, target: str = "", progress: Progress | None = None) -> None:
    """The same without a kill."""
    here, there = stores_at(source), stores_at(target)
    if what == "copy":
        copy_collection(here, "docs", there, progress=progress)
    else:
        reindex_collection(here, "docs", HashEmbedder(32), chunk_size=300, progress=progress)
    here.close()
    there.close()


def library(place: str, dimension: int = 64) -> Library:
    return Library(Path("unused"), HashEmbedder(dimension), stores=stores_at(place), keep_originals=True)


COPIES = [("put 5", 1, 4), ("put 5", 256, 0), ("rename", 256, 10)]


@pytest.mark.parametrize(("place", "run_chunks", "stored"), COPIES)
@pytest.mark.parametrize(("kind", "other"), [("embedded", "postgres"), ("postgres", "embedded")])
def test_killed_copy(
    kind: str,
    other: str,
    place: str,
    run_chunks: int,
    stored: int,
    new_place: Callable[[str], str],
    tmp_path: Path,
) -> None:
    source, target = new_place(kind), new_place(other)
    here, there = library(source), library(target)
    collection = here.create("docs")
    fill(collection, tmp_path)
    killed("copy", source, target, place, run_chunks)
    assert there.collections() == []
    assert_same_documents(collection, collection)  # its lock is free, and nothing was changed
    collection.delete("d2")
    again: list[tuple[int, int]] = []
    run("copy", source, target, lambda done, total, _: again.append((done, total)))
    assert again[0] == (max(0, stored - (stored > 2)), 9)  # what was stored is not stored again
    twin = there.collection("docs")
    assert_same_documents(collection, twin)
    assert_same_index(collection, twin)
    stores = stores_at(target)
    assert stores.names() == ["docs"]
    for one in (here, there, stores):
        one.close()


REINDEXES = [
    ("put 5", 1, "old"),
    ("exchange", 256, "old"),
    ("exchanged", 256, "either"),
    ("delete", 256, "new"),
]


@pytest.mark.parametrize(("place", "run_chunks", "serves"), REINDEXES)
@pytest.mark.parametrize("kind", ["embedded", "postgres"])
def test_killed_reindex(
    kind: str, place: str, run_chunks: int, serves: str, new_place: Callable[[str], str], tmp_path: Path
) -> None:
    source = new_place(kind)
    old, new = library(source), library(source, 32)
    collection = old.create("docs")
    fill(collection, tmp_path)
    documents = {identity: collection.get(identity).text for identity in ids(collection)}
    chunks = collection.stats().chunks
    killed("reindex", source, "", place, run_chunks)
    if serves == "either":  # SQLite's folders are exchanged by then, PostgreSQL's transaction is undone
        serves = "new" if kind == "embedded" else "old"
    assert old.collections() == ["docs"]
    serving = collection if serves == "old" else new.collection("docs")
    assert serving.stats().embedder == serving._embedder.name
    assert {identity: serving.get(identity).text for identity in ids(serving)} == documents
    assert serving.search("zebra of d1", 1)[0].document_id == "d1"
    serving.delete("d2")
    run("reindex", source)
    after = new.collection("docs")
    assert {identity: after.get(identity).text for identity in ids(after)} == {
        identity: text for identity, text in documents.items() if identity != "d2"
    }
    assert after.stats().chunks > chunks
    assert after.search("zebra of d1", 1)[0].document_id == "d1"
    stores = stores_at(source)
    assert stores.names() == ["docs"]
    # as one that was reindexed without a kill
    fresh = library(str(tmp_path / "fresh"))
    fill(fresh.create("docs"), tmp_path)
    fresh.collection("docs").delete("d2")
    run("reindex", str(tmp_path / "fresh"))
    assert_same_index(library(str(tmp_path / "fresh"), 32).collection("docs"), after)
    for one in (old, new, fresh, stores):
        one.close()


@pytest.mark.parametrize("kind", ["embedded", "postgres"])
def test_killed_again_and_again_anywhere(kind: str, new_place: Callable[[str], str], tmp_path: Path) -> None:
    """The process is killed while it goes on, at whatever it does after a number of documents."""
    chance = random.Random(11)
    source, target = new_place(kind), new_place("embedded" if kind == "postgres" else "postgres")
    here, there = library(source), library(target)
    collection = here.create("docs")
    fill(collection, tmp_path, 14)
    for _ in range(3):
        killed("copy", source, target, "anywhere", 1, chance.randrange(1, 4))
        assert there.collections() == []
        killed("reindex", source, "", "anywhere", 1, chance.randrange(1, 4))
        assert collection.search("zebra of d1", 1)[0].document_id == "d1"
    run("copy", source, target)
    assert_same_documents(collection, there.collection("docs"))
    assert_same_index(collection, there.collection("docs"))
    run("reindex", source)
    new = library(source, 32)
    assert_same_documents(there.collection("docs"), new.collection("docs"))
    for one in (here, there, new):
        one.close()
