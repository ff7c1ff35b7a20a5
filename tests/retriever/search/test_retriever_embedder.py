"""Embedders: the fake's promises, and what the real one says before a model is loaded."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from retriever import (
    Embedder,
    EmbedderUnavailable,
    Library,
    SentenceTransformerEmbedder,
    SourceDocument,
    make_embedder,
)
from retriever.embedding.embedder import Vectors, dtype_of
from retriever.embedding.provider import ProviderEmbedder
from tests.support.hash_embedder import HashEmbedder
from tests.support.models.tiny_encoders import WORDS, tiny_embedder


def test_the_fake_is_deterministic_and_of_unit_length() -> None:
    embedder: Embedder = HashEmbedder(32)
    vectors = embedder.embed_documents(["one two", "", "Two one!"])
    assert (vectors.shape, vectors.dtype) == ((3, 32), np.dtype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(vectors[0], HashEmbedder(32).embed_query("one two"))
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert embedder.embed_documents([]).shape == (0, 32)


def test_words_in_common_bring_texts_near() -> None:
    embedder = HashEmbedder()
    near, far = embedder.embed_documents(["the red fox", "blue whales sing"])
    question = embedder.embed_query("a red fox")
    assert question @ near > question @ far


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"config\.json"):
        SentenceTransformerEmbedder(tmp_path)


def test_name_and_dimension_are_known_without_loading(tmp_path: Path) -> None:
    folder = tmp_path / "mini"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 384}')
    embedder = SentenceTransformerEmbedder(folder)
    assert (embedder.name, embedder.dimension) == ("mini", 384)
    assert SentenceTransformerEmbedder(folder, name="other").name == "other"


def test_a_setting_names_a_folder_or_a_provider(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert isinstance(make_embedder("mini", lambda name: tmp_path), SentenceTransformerEmbedder)
    for model in ("openai:text-embedding-3-small", "ollama:nomic-embed-text:v1.5"):
        embedder = make_embedder(model, lambda name: pytest.fail(f"looked for {name}"))
        assert (type(embedder), embedder.name) == (ProviderEmbedder, model)


@pytest.mark.parametrize(
    ("model", "message"),
    [("cohere:embed-v4", "pip install langchain-cohere"), ("nobody:model", "not supported"), ("openai:x", "API_KEY")],
)
def test_a_provider_that_cannot_be_used_says_why(model: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EmbedderUnavailable, match=message):
        ProviderEmbedder(model).load()


def test_a_provider_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(EmbedderUnavailable, match="start its server"):
        ProviderEmbedder("openai:x").embed_query("a question")


MINILM = Path(".rag/models/all-minilm-l6-v2")
needs_minilm = pytest.mark.skipif(not (MINILM / "config.json").is_file(), reason="needs all-minilm-l6-v2")


def test_texts_are_embedded_by_length_and_given_back_in_their_order(tmp_path: Path) -> None:
    folder = tiny_embedder(tmp_path / "tiny")
    texts = [" ".join(WORDS[: 1 + n % 8]) + " fox" * (n % 5) for n in range(11)]
    embedder = SentenceTransformerEmbedder(folder, batch_size=3)
    vectors = embedder.embed_documents(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, embedder.embed_documents([text])[0], atol=1e-5)
    lengths = [embedder.tokens(texts[place]) for batch in embedder._batches(texts) for place in batch]
    assert lengths == sorted(lengths, reverse=True)


def test_counting_the_tokens_of_a_long_text_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers warns, once a process, of a text that the model cannot read whole; it is not meant to."""
    embedder = SentenceTransformerEmbedder(tiny_embedder(tmp_path))
    embedder.load()
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    text = " ".join(WORDS[:8] * 20)
    assert embedder.tokens(text) == 160
    assert embedder.known(text) == 1.0
    embedder.embed_documents([text] * (embedder.batch_size + 1))
    assert not caplog.messages


def test_bfloat16_gives_float32_vectors_of_unit_length(tmp_path: Path) -> None:
    folder = tiny_embedder(tmp_path / "tiny")
    full, half = SentenceTransformerEmbedder(folder), SentenceTransformerEmbedder(folder, dtype="bfloat16")
    assert (dtype_of(full), dtype_of(half)) == ("float32", "bfloat16")
    texts = ["the red fox", "blue whale sings at night"]
    vectors = half.embed_documents(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    assert {parameter.dtype for parameter in half._model.parameters()} == {torch.bfloat16}
    assert (vectors * full.embed_documents(texts)).sum(axis=1).min() > 0.998


def test_a_collection_made_in_one_dtype_answers_in_another(tmp_path: Path) -> None:
    folder = tiny_embedder(tmp_path / "tiny")
    half = Library(tmp_path, SentenceTransformerEmbedder(folder, dtype="bfloat16"))
    collection = half.create("animals")
    sources = {"fox": "the red fox", "whale": "blue whale sings at night"}
    collection.ingest([SourceDocument(text=text, document_id=name) for name, text in sources.items()])
    assert collection.stats().embedder_dtype == "bfloat16"
    half.close()
    full = Library(tmp_path, SentenceTransformerEmbedder(folder))
    found = full.collection("animals").search("the red fox", mode="dense")
    assert found[0].document_id == "fox"
    full.close()


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EmbedderUnavailable, match=r"cuda:1 is not there.*RAG_EMBEDDING_DEVICE"):
        SentenceTransformerEmbedder(tmp_path, device="cuda:1").load()


@needs_minilm
def test_minilm_in_bfloat16_is_near_float32() -> None:
    texts = [path.read_text(encoding="utf-8")[:900] for path in sorted(Path("examples/documents").glob("*.md"))]
    full = SentenceTransformerEmbedder(MINILM).embed_documents(texts)
    half = SentenceTransformerEmbedder(MINILM, dtype="bfloat16").embed_documents(texts)
    assert (full * half).sum(axis=1).min() >= 0.998


def test_a_question_is_embedded_before_the_passages_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = SentenceTransformerEmbedder(tiny_embedder(tmp_path), batch_size=1)
    embedder.load()
    asked, overtaken = threading.Event(), threading.Event()
    waiting: list[int] = []
    encode, a_question = embedder._encode, embedder._a_question

    @contextmanager
    def noticed() -> Iterator[None]:
        with a_question():
            asked.set()
            yield

    def slow(method: str, texts: list[str], prefix: str, threads: int | None) -> Vectors:
        if method == "encode_query":
            overtaken.wait(0.2)
        elif not waiting:
            question.start()
            assert asked.wait(30)
            waiting.append(0)
        else:
            waiting.append(embedder._questions)
            overtaken.set()
        return encode(method, texts, prefix, threads)

    monkeypatch.setattr(embedder, "_encode", slow)
    monkeypatch.setattr(embedder, "_a_question", noticed)
    question = threading.Thread(target=embedder.embed_query, args=("four",))
    embedder.embed_documents(["one", "two", "three"])
    question.join()
    assert waiting == [0, 0, 0]
