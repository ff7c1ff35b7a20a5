"""RAG_RERANKER: who loads it and when, what a wrong one says, and how passages carry its score."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.answering.models import reranking_of
from rag_service.answering.pipeline import Pipeline
from rag_service.api.problems import as_problem
from rag_service.cli.stack.doctor import _model
from rag_service.errors import InvalidSettings
from rag_service.main import create_app
from rag_service.settings import Settings, load_settings
from retriever import CrossEncoderReranker, RerankerUnavailable
from tests.support.hash_embedder import HashEmbedder
from tests.support.models.tiny_encoders import tiny_cross_encoder, tiny_embedder
from workers.worker.main import WorkerConfig


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder(tmp_path_factory.mktemp("embedder"))


def make(world: Any, tokens: Any, reranker: str) -> Pipeline:
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        data_dir=world.data_dir,
        reranker=reranker,
        reranker_budget_ms=0,
        open_without_key=True,
    )
    return Pipeline(settings, world.redis_url, embedder=HashEmbedder(), tokens=tokens, window=1200)


async def test_passages_carry_the_score_of_the_reranker(world: Any, tokens: Any, cross_encoder: Path) -> None:
    pipeline = make(world, tokens, str(cross_encoder))
    assert pipeline.reranking is not None
    app = create_app(pipeline=pipeline)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://rag") as client,
    ):
        assert pipeline._warming is not None
        pipeline._warming.join(60)
        reranker = pipeline.reranking.reranker
        assert isinstance(reranker, CrossEncoderReranker)
        assert reranker._model is not None, "it is loaded before the first question"
        answer = await client.post("/v1/collections/animals/search", json={"question": "What jumps?", "top_k": 5})
        scores = [passage["rerank_score"] for passage in answer.json()["passages"]]
        assert scores
        assert all(isinstance(score, float) for score in scores)
        assert scores == sorted(scores, reverse=True)


async def test_without_a_reranker_passages_have_no_score_of_it(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/collections/animals/search", json={"question": "What jumps?"})
    assert {passage["rerank_score"] for passage in answer.json()["passages"]} == {None}


def test_a_reranker_that_is_not_there_or_of_another_kind_stops_the_start(
    world: Any, tokens: Any, embedder: Path
) -> None:
    with pytest.raises(InvalidSettings, match="RAG_RERANKER to models you have"):
        make(world, tokens, "nowhere")
    with pytest.raises(InvalidSettings, match=r"^RAG_RERANKER: .* holds no cross-encoder .*BertModel"):
        make(world, tokens, str(embedder))


def test_an_empty_setting_is_none(monkeypatch: pytest.MonkeyPatch, own_folder: None) -> None:
    monkeypatch.setenv("RAG_RERANKER", "")
    settings = load_settings()
    assert (settings.reranker, settings.reranker_candidates, settings.reranker_budget_ms) == (None, 20, 1000)


def test_an_api_without_models_refuses_one(cross_encoder: Path) -> None:
    settings = Settings(reranker=str(cross_encoder), embedding_device="workers", _env_file=None)  # type: ignore[call-arg]
    with pytest.raises(InvalidSettings, match="RAG_RERANKER runs in the API, and RAG_EMBEDDING_DEVICE=workers"):
        reranking_of(settings, Path)


def test_workers_have_no_reranker() -> None:
    assert not [field.name for field in fields(WorkerConfig) if "rerank" in field.name]


def test_one_that_fails_in_a_search_is_unavailable() -> None:
    problem = as_problem(RerankerUnavailable("the reranker cannot be loaded; pull it again"))
    assert (problem.status, problem.code) == (503, "reranker_unavailable")
    assert "pull it again" in problem.detail


def test_doctor_checks_it(tmp_path: Path, cross_encoder: Path, embedder: Path) -> None:
    fine = _model("reranker", str(cross_encoder), tmp_path)
    assert (fine.ok, fine.found) == (True, f"{cross_encoder} in {cross_encoder}")
    other = _model("reranker", str(embedder), tmp_path)
    assert not other.ok
    assert "no cross-encoder" in other.found
    missing = _model("reranker", "cross-encoder/ms-marco-MiniLM-L6-v2", tmp_path)
    assert not missing.ok
    assert "rag models pull cross-encoder/ms-marco-MiniLM-L6-v2" in missing.fix
