"""A killed ingest leaves every document as it was or as it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

# Ingests three changed documents, and stops for ever at the given place, after a line on stdout.
SCRIPT = """
import sys, threading
from pathlib import Path
from retriever import Library, SourceDocument
from retriever.stores import ingest, records
from tests.support.hash_embedder import HashEmbedder

def stop():
    print("here", flush=True)
    threading.Event().wait()

class Stopping(HashEmbedder):
    def embed_documents(self, texts):
        if place == "embedding" and any("c2" in text for text in texts):
            stop()
        return super().embed_documents(texts)

def put(connection, new, vectors):
    replaced = put_really(connection, new, vectors)
    if place == "storing" and new.id == "b":
        stop()
    return replaced

folder, place = Path(sys.argv[1]), sys.argv[2]
put_really, records.put = records.put, put
ingest.RUN_CHUNKS = int(sys.argv[3])
sources = [SourceDocument(document_id=key, text=f"word {key}2") for key in "abc"]
Library(folder, Stopping()).collection("docs").ingest(sources)
"""


@pytest.mark.parametrize(
    ("place", "run_chunks", "changed"),
    [("embedding", 1, "ab"), ("embedding", 256, ""), ("storing", 1, "a"), ("storing", 256, "")],
)
def test_killed_ingest(tmp_path: Path, place: str, run_chunks: int, changed: str) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest([SourceDocument(document_id=key, text=f"word {key}1") for key in "abc"])

    command = [sys.executable, "-c", SCRIPT, str(tmp_path), place, str(run_chunks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()

    expected = {key: f"word {key}{2 if key in changed else 1}" for key in "abc"}
    for holder in (collection, Library(tmp_path, HashEmbedder()).collection("docs")):
        assert {key: holder.get(key).text for key in "abc"} == expected
        for mode in ("dense", "lexical", "hybrid"):
            passages = holder.search("word", 10, mode)  # type: ignore[arg-type]
            assert {passage.document_id: passage.text for passage in passages} == expected
        assert holder.stats().chunks == 3

    again = collection.ingest([SourceDocument(document_id=key, text=f"word {key}2") for key in "abc"])
    assert again.unchanged == tuple(changed)
    assert {key: collection.get(key).text for key in "abc"} == {key: f"word {key}2" for key in "abc"}
