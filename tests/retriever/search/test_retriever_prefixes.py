"""What stands before questions and passages: where it comes from, what is embedded, and what a collection accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from retriever import (
    EmbedderMismatch,
    EmbedderUnavailable,
    Library,
    SentenceTransformerEmbedder,
    SourceDocument,
    make_embedder,
)
from retriever.embedding.prefixes import Prefixes
from retriever.embedding.provider import ProviderEmbedder
from tests.support.models.tiny_encoders import WINDOW, tiny_embedder

E5 = {"query_prefix": "query: ", "passage_prefix": "passage: "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder(tmp_path_factory.mktemp("plain"))


def test_questions_and_passages_are_embedded_with_their_prefixes(folder: Path) -> None:
    plain, e5 = SentenceTransformerEmbedder(folder), SentenceTransformerEmbedder(folder, **E5)
    asked, stored = plain.embed_documents(["query: the red fox", "passage: the red fox"])
    np.testing.assert_allclose(e5.embed_query("the red fox"), asked, atol=1e-6)
    np.testing.assert_allclose(e5.embed_documents(["the red fox"])[0], stored, atol=1e-6)
    assert abs(asked - stored).max() > 1e-3  # else nothing above could fail
    assert e5.known("the red fox") == plain.known("the red fox") == 1.0


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({}, Prefixes()),
        ({"query": "query: ", "document": "passage: "}, Prefixes("query: ", "passage: ")),
        ({"query": "query: ", "passage": "passage: "}, Prefixes("query: ", "passage: ")),
        ({"query": "ask: ", "document": "", "corpus": "text: "}, Prefixes("ask: ", "text: ")),
        ({"query": None, "other": "x"}, Prefixes()),
    ],
)
def test_a_folder_names_its_own(prompts: dict[str, str], expected: Prefixes, tmp_path: Path) -> None:
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    assert Prefixes.of_folder(tmp_path) == expected
    assert expected.chosen(None, "") == Prefixes(expected.query, "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"prompts": []}'])
def test_a_folder_without_prompts_has_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "config_sentence_transformers.json").write_text(text)
    assert Prefixes.of_folder(tmp_path) == Prefixes() == Prefixes.of_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["document", "passage"])
def test_the_prompts_of_a_folder_are_used_unless_others_are_set(name: str, folder: Path, tmp_path: Path) -> None:
    own = tiny_embedder(tmp_path / "own", {"query": "query: ", name: "passage: "})
    e5 = SentenceTransformerEmbedder(folder, **E5)
    given, without = SentenceTransformerEmbedder(own), make_embedder("own", lambda _: own, "cpu", "float32", "", "")
    for text in ("the red fox", "blue whale"):
        np.testing.assert_allclose(given.embed_query(text), e5.embed_query(text), atol=1e-6)
        np.testing.assert_allclose(given.embed_documents([text]), e5.embed_documents([text]), atol=1e-6)
        np.testing.assert_allclose(without.embed_query(text), without.embed_documents([text])[0], atol=1e-6)


def test_the_name_of_an_embedder_has_its_prefixes(folder: Path, tmp_path: Path) -> None:
    assert SentenceTransformerEmbedder(folder).name == "model"
    assert SentenceTransformerEmbedder(folder, name="e5", **E5).name == 'e5 with "query: " and "passage: "'
    hub = make_embedder("owner/e5", lambda _: folder, "cpu", "float32", "query: ", None)
    assert hub.name == 'owner/e5 with "query: " and ""'
    assert make_embedder(str(folder), Path).name == "model"


def test_chunks_leave_room_for_the_prefix(folder: Path, tmp_path: Path) -> None:
    plain, e5 = SentenceTransformerEmbedder(folder), SentenceTransformerEmbedder(folder, **E5)
    assert plain.most_tokens == WINDOW - 2
    assert e5.most_tokens == WINDOW - 4  # "passage" and ":"
    library = Library(tmp_path, e5)
    library.create("animals").ingest([SourceDocument(text="the red fox sings at night. " * 60, document_id="fox")])
    sizes = [e5.tokens(f"passage: {chunk.text}") + 2 for chunk in library.collection("animals").chunks("fox")]
    assert len(sizes) > 3
    assert WINDOW // 2 < max(sizes) <= WINDOW


def test_a_prefix_that_fills_the_window_is_refused(folder: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="RAG_EMBEDDING_PASSAGE_PREFIX"):
        _ = SentenceTransformerEmbedder(folder, passage_prefix="the red fox " * 17).most_tokens


@pytest.mark.parametrize("others", [{}, {"query_prefix": "query: "}, {"passage_prefix": "passage: "}])
def test_a_collection_made_with_other_prefixes_is_refused(others: dict[str, str], folder: Path, tmp_path: Path) -> None:
    source = SourceDocument(text="the red fox", document_id="fox")
    Library(tmp_path, SentenceTransformerEmbedder(folder, **E5)).create("animals").ingest([source])
    other = Library(tmp_path, SentenceTransformerEmbedder(folder, **others)).collection("animals")
    for use in (lambda: other.search("fox", mode="dense"), lambda: other.ingest([source])):
        with pytest.raises(EmbedderMismatch, match=r'with "query: " and "passage: ".*prefixes'):
            use()
    assert [one.document_id for one in other.search("fox", mode="lexical")] == ["fox"]


def test_collections_of_earlier_versions_keep_their_model(tmp_path: Path) -> None:
    """They are named after the folder alone, and were embedded with its prompts `query` and `document`."""
    own = tiny_embedder(tmp_path / "own", {"query": "query: ", "document": "passage: "})
    named_otherwise = tiny_embedder(tmp_path / "passage", {"query": "query: ", "passage": "passage: "})

    def embedder(folder: Path, prefix: str | None = None) -> SentenceTransformerEmbedder:
        return SentenceTransformerEmbedder(folder, name="owner/e5", passage_prefix=prefix)

    earlier = Library(tmp_path, _Named("model", embedder(own).embed_documents))
    earlier.create("animals").ingest([SourceDocument(text="the red fox", document_id="fox")])
    assert Library(tmp_path, embedder(own)).collection("animals").search("the red fox", mode="dense")
    for other in (embedder(own, "other: "), embedder(named_otherwise)):
        with pytest.raises(EmbedderMismatch):
            Library(tmp_path, other).collection("animals").search("the red fox", mode="dense")


def test_the_texts_that_a_provider_gets_have_the_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make_embedder("ollama:e5", Path, "cpu", "float32", "query: ", "passage: ")
    assert isinstance(embedder, ProviderEmbedder)
    assert embedder.name == 'ollama:e5 with "query: " and "passage: "'
    client = _Client()
    monkeypatch.setitem(embedder.__dict__, "_client", client)
    embedder.embed_query("fox")
    embedder.embed_documents(["red", "blue"])
    assert client.texts == ["query: fox", "passage: red", "passage: blue"]
    assert ProviderEmbedder("ollama:e5").name == "ollama:e5"


class _Named:
    """An embedder of another name."""

    dimension = 32

    def __init__(self, name: str, embed: Callable[[Sequence[str]], np.ndarray]) -> None:
        self.name = name
        self.embed_documents = embed

    def embed_query(self, text: str) -> np.ndarray:
        return self.embed_documents([text])[0]


class _Client:
    """LangChain's, which notes what it is sent."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0, 0.0] for _ in texts]
