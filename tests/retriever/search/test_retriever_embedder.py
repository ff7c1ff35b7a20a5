"""Embedders: the fake's promises, and what the real one says before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from retriever import Embedder, EmbedderUnavailable, SentenceTransformerEmbedder
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
