"""Embedders: the fake's promises, and what the real one says before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from retriever import Embedder, EmbedderUnavailable, SentenceTransformerEmbedder, make_embedder
from retriever.embedder import ProviderEmbedder
from tests.support.hash_embedder import HashEmbedder


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
