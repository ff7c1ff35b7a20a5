"""`/v1/embeddings`, for LangChain's OpenAI client as an embedder of collections, and beside other requests."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from retriever import EmbedderMismatch, Library, SourceDocument
from retriever.embedding.provider import ProviderEmbedder
from tests.support.hash_embedder import HashEmbedder


def test_embeddings_of_another_service_serve_collections(
    api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{api_url}/v1")
    embedder = ProviderEmbedder("openai:all-minilm-l6-v2")
    texts = ["The red fox", "Blue whales sing"]
    vectors = embedder.embed_documents(texts)
    assert (vectors.dtype, embedder.dimension) == (np.dtype(np.float32), vectors.shape[1])
    np.testing.assert_allclose(vectors, HashEmbedder().embed_documents(texts), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)
    collection = Library(tmp_path, embedder).create("notes")
    collection.ingest([SourceDocument(name=f"{number}.txt", text=text) for number, text in enumerate(texts)])
    assert collection.search("a red fox", 1, "dense")[0].text == texts[0]
    assert collection.stats().embedder == "openai:all-minilm-l6-v2"
    with pytest.raises(EmbedderMismatch, match="openai:all-minilm-l6-v2"):
        Library(tmp_path, HashEmbedder()).collection("notes").search("a red fox")


async def test_embeddings_leave_other_requests_their_threads(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    embed, gate = pipeline.embedder.embed_documents, threading.Event()

    def slow(texts: list[str]) -> Any:
        assert gate.wait(60)
        return embed(texts)

    monkeypatch.setattr(pipeline.embedder, "embed_documents", slow)
    body = {"model": pipeline.settings.embedding_model, "input": ["a text"]}
    asked = [asyncio.create_task(client.post("/v1/embeddings", json=body)) for _ in range(60)]
    for path in ("/healthz", "/readyz", "/v1/collections"):
        assert (await client.get(path)).status_code == 200
    assert not any(one.done() for one in asked)
    gate.set()
    assert {(await one).status_code for one in asked} == {200}
