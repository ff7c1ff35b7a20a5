"""An ingest or a database that is killed leaves every document as it was or as it is given, and nothing drifts.

Drift would show in a comparison with an embedded collection of the same documents: counts, words, passages, order.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever import Collection, Library, RetrieverError, SourceDocument
from retriever.postgres.stores import PostgresStores
from retriever.postgres.transaction import PostgresTransaction
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer
from tests.support.storage.stores import assert_same_passages

# Ingests three changed documents, and stops for ever at the given place, after a line on stdout.
SCRIPT = """
import sys, threading
from pathlib import Path
from retriever import Library, SourceDocument
from retriever.postgres.stores import PostgresStores
from retriever.postgres.transaction import PostgresTransaction
from retriever.stores import ingest
from tests.support.hash_embedder import HashEmbedder

def stop():
    print("here", flush=True)
    threading.Event().wait()

class Stopping(HashEmbedder):
    def embed_documents(self, texts):
        if place == "embedding" and any("c2" in text for text in texts):
            stop()
        return super().embed_documents(texts)

def put(self, new, vectors):
    replaced = put_really(self, new, vectors)
    if place == "storing" and new.id == "b":
        stop()
    return replaced

def finish(self):
    finish_really(self)
    if place == "finishing":
        stop()

url, place = sys.argv[1:3]
put_really, PostgresTransaction.put = PostgresTransaction.put, put
finish_really, PostgresTransaction.finish = PostgresTransaction.finish, finish
ingest.RUN_CHUNKS = int(sys.argv[3])
sources = [SourceDocument(document_id=key, text=f"word {key}2") for key in "abc"]
Library(Path("unused"), Stopping(), stores=PostgresStores(url)).collection("docs").ingest(sources, job="job")
"""


@pytest.fixture
def collection(postgres_url: str, tmp_path: Path) -> Iterator[Collection]:
    library = Library(tmp_path / "unused", HashEmbedder(), stores=PostgresStores(postgres_url))
    yield library.create("docs")
    library.close()


def check(collection: Collection, folder: Path) -> None:
    """The collection is what an embedded one of the same documents is."""
    stored = [collection.get(info.id) for info in collection.documents(limit=1000)]
    library = Library(folder, HashEmbedder())
    twin = library.create("docs")
    twin.ingest([SourceDocument(document_id=one.id, text=one.text, title=one.title) for one in stored])
    here, there = collection.stats(), twin.stats()
    assert (here.documents, here.chunks, here.bytes) == (there.documents, there.chunks, there.bytes)
    with collection._store.read() as snapshot, twin._store.read() as other:
        assert snapshot.totals() == other.totals()
        assert snapshot.languages() == other.languages()
        assert sorted(snapshot.lengths()["length"].tolist()) == sorted(other.lengths()["length"].tolist())
    for one in stored:
        assert collection.chunks(one.id) == twin.chunks(one.id)
    for mode in ("dense", "lexical", "hybrid"):
        for question in ("word", "word a2", "b1 c", "zebra d3"):
            found = collection.search(question, 100, mode)  # type: ignore[arg-type]
            expected = twin.search(question, 100, mode)  # type: ignore[arg-type]
            assert_same_passages(found, expected, mode)
    library.close()


@pytest.mark.parametrize(
    ("place", "run_chunks", "changed"),
    [
        ("embedding", 1, "ab"),
        ("embedding", 256, ""),
        ("storing", 1, "a"),
        ("storing", 256, ""),
        ("finishing", 1, ""),
    ],
)
def test_killed_ingest(
    collection: Collection, postgres_url: str, tmp_path: Path, place: str, run_chunks: int, changed: str
) -> None:
    collection.ingest([SourceDocument(document_id=key, text=f"word {key}1") for key in "abc"])
    command = [sys.executable, "-c", SCRIPT, postgres_url, place, str(run_chunks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
    expected = {key: f"word {key}{2 if key in changed else 1}" for key in "abc"}
    assert {key: collection.get(key).text for key in "abc"} == expected
    check(collection, tmp_path / "twin")
    again = collection.ingest([SourceDocument(document_id=key, text=f"word {key}2") for key in "abc"], job="job")
    assert again.unchanged == tuple(changed)
    assert {key: collection.get(key).text for key in "abc"} == {key: f"word {key}2" for key in "abc"}
    check(collection, tmp_path / "twin again")


@pytest.mark.parametrize("place", ["put", "finish", "commit"])
def test_killed_database(
    collection: Collection,
    postgres: PostgresServer,
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database dies in the middle of an ingest; the ingest says so, and goes on when the database is back."""
    collection.ingest([SourceDocument(document_id=key, text=f"word {key}1") for key in "abc"])
    sources = [SourceDocument(document_id=key, text=f"word {key}2") for key in "abcd"]
    calls = 0

    def dying(really: object) -> object:
        def call(self: PostgresTransaction, *arguments: object) -> object:
            nonlocal calls
            calls += 1
            if place != "commit" and calls == 1:
                postgres.kill()
            result = really(self, *arguments)  # type: ignore[operator]
            if place == "commit" and calls == 1:
                postgres.kill()
            return result

        return call

    name = "put" if place == "put" else "finish"
    with monkeypatch.context() as patch:
        patch.setattr(PostgresTransaction, name, dying(getattr(PostgresTransaction, name)))
        with pytest.raises(RetrieverError, match="check that it runs"):
            collection.ingest(sources, job="job")
    with pytest.raises(RetrieverError, match="check that it runs"):
        collection.get("a")
    postgres.start()
    assert {key: collection.get(key).text for key in "abc"} == {key: f"word {key}1" for key in "abc"}
    check(collection, tmp_path / "twin")
    assert collection.ingest(sources, job="job").failures == ()
    assert {key: collection.get(key).text for key in "abcd"} == {key: f"word {key}2" for key in "abcd"}
    check(collection, tmp_path / "twin again")


def test_a_database_that_dies_at_any_moment(collection: Collection, postgres: PostgresServer, tmp_path: Path) -> None:
    """Changes go on in one thread while the database is killed in another, at places that chance chooses."""
    chance = random.Random(7)
    ended = threading.Event()
    acknowledged: dict[str, str | None] = {}

    def change() -> None:
        while not ended.is_set():
            key, version = chance.choice("abcdef"), chance.randrange(1, 9)
            text = f"word {key}{version} " + "filler " * chance.randrange(400)
            acknowledged.pop(key, None)  # until it is acknowledged, either state is right
            with contextlib.suppress(RetrieverError):
                if version == 1:
                    collection.delete(key)
                    acknowledged[key] = None
                else:
                    collection.ingest([SourceDocument(document_id=key, text=text)])
                    acknowledged[key] = text

    for round_number in range(6):
        ended.clear()
        thread = threading.Thread(target=change)
        thread.start()
        ended.wait(0.05 + chance.random() / 3)  # what dies is whatever runs then
        postgres.kill()
        ended.set()
        thread.join()
        postgres.start()
        stored = {info.id for info in collection.documents()}
        for key, text in acknowledged.items():
            assert (collection.get(key).text if key in stored else None) == (text and text.strip() and text), key
        check(collection, tmp_path / str(round_number))
