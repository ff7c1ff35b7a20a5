"""`rag collections copy` and `rag collections reindex`, on the stores themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rag_service.cli import app
from rag_service.stack.exit_status import FAILED, USAGE
from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.moving import stores_at

Rag = Callable[..., Result]


@pytest.fixture
def rag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rag:
    """The command line on a data folder with the collection `shelf`, and models `hash-64` and `hash-32`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_EMBEDDING_MODEL", "hash-64")
    monkeypatch.setattr(
        "retriever.make_embedder", lambda model, *_: HashEmbedder(int(model.partition("-")[2])), raising=False
    )
    library = Library(tmp_path / "data", HashEmbedder())
    texts = {"kiwi": "A kiwi is green.", "plum": "A plum is blue. " * 80}
    sources = [SourceDocument(document_id=name, text=text) for name, text in texts.items()]
    library.create("shelf").ingest(sources)
    library.of("acme").create("theirs").ingest(sources[:1])
    library.close()
    return lambda *arguments: CliRunner().invoke(app, ["collections", *arguments])


@pytest.fixture
def library() -> Iterator[Callable[..., Library]]:
    opened: list[Library] = []

    def library(place: str, dimension: int = 64) -> Library:
        opened.append(Library(Path("unused"), HashEmbedder(dimension), stores=stores_at(place)))
        return opened[-1]

    yield library
    for one in opened:
        one.close()


def told(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_copy_to_a_database_and_back(
    rag: Rag, library: Callable[..., Library], postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = rag("copy", "shelf", "--to", postgres_url)
    assert (copied.exit_code, copied.stdout) == (0, "shelf has 2 documents: 2 copied now.\n")
    assert library(postgres_url).collection("shelf").search("plum", 1)[0].document_id == "plum"
    told(rag("copy", "theirs", "--to", postgres_url, "--tenant", "acme", "--json"))
    assert library(postgres_url).of("acme").collections() == ["theirs"]
    library(str(tmp_path / "data")).collection("shelf").delete("kiwi")
    again = rag("copy", "shelf", "--to", postgres_url)
    assert again.stdout == "shelf has 1 document: 0 copied now, 1 removed.\n"
    monkeypatch.setenv("RAG_STORE_URL", postgres_url)
    back = rag("copy", "shelf", "--to", str(tmp_path / "new"), "--as", "back", "--json")
    assert told(back) == {"collection": "back", "documents": 1, "stored": 1, "removed": 0}
    assert library(str(tmp_path / "new")).collection("back").search("plum", 1)[0].document_id == "plum"
    assert (tmp_path / "new" / "collections" / "back").stat().st_mode & 0o077 == 0


def test_reindex(rag: Rag, library: Callable[..., Library], tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert rag("reindex", "shelf", "--chunk-size", "200").stdout == "The new index of shelf (2 documents) serves.\n"
    assert library(data).collection("shelf").stats().chunks > 4
    prepared = rag("reindex", "shelf", "--embedding-model", "hash-32", "--prepare")
    assert "is ready; the same command without --prepare puts it in place" in prepared.stdout
    assert library(data).collection("shelf").stats().embedder == "hash-64"
    other = rag("reindex", "shelf")
    assert other.exit_code == FAILED
    assert "An unfinished index of collection 'shelf' has the embedding model hash-32" in other.stderr
    finished = rag("reindex", "shelf", "--embedding-model", "hash-32", "--json")
    assert told(finished) == {"collection": "shelf", "documents": 2, "stored": 0, "exchanged": True}
    assert "Set RAG_EMBEDDING_MODEL=hash-32" in finished.stderr
    assert library(data, 32).collection("shelf").search("plum", 1)[0].document_id == "plum"
    assert rag("reindex", "shelf", "--prepare").exit_code == 0
    assert told(rag("reindex", "shelf", "--cancel", "--json")) == {"collection": "shelf", "removed": True}
    assert rag("reindex", "theirs", "--tenant", "acme", "--vector-dtype", "float32").exit_code == 0
    assert library(data).of("acme").collection("theirs").stats().vector_dtype == "float32"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("copy", "shelf", "--to", "mysql://x/y"), USAGE, "--to has no store mysql://"),
        (("copy", "shelv", "--to", "new"), FAILED, "did you mean 'shelf'"),
        (("copy", "shelf", "--to", "new", "--as", ".x"), FAILED, "is not a collection name"),
        (("copy", "shelf", "--to", "data"), FAILED, "is the collection that is to be copied; choose another name"),
        (("copy", "shelf", "--to", "new", "--tenant", "../x"), FAILED, "'../x' is not a collection name"),
        (("copy", "shelf", "--to", "postgresql://x:hush@127.0.0.1:1/y"), FAILED, "cannot be used"),
        (("reindex", "nothing"), FAILED, "There is no collection 'nothing'"),
        (("reindex", "shelf", "--chunk-size", "99"), USAGE, "from 100 to 20000 bytes, or 0"),
        (("reindex", "shelf", "--chunk-size", "20001"), USAGE, "Invalid value for '--chunk-size'"),
        (("reindex", "shelf", "--vector-dtype", "int8"), USAGE, "--vector-dtype"),
    ],
)
def test_what_cannot_be_done_is_said(rag: Rag, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = rag(*arguments)
    assert result.exit_code == status
    assert message in " ".join(result.stderr.split())
    assert "hush" not in result.stderr
