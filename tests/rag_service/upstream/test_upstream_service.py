"""The service with model servers behind its workers: which server a job names, and what the service says it serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rag_service.answering.service import Service
from tests.rag_service.conftest import World, make_settings
from tests.support.hash_embedder import HashEmbedder
from workers.tokens.tokenizer import Tokens

SERVERS: dict[str, Any] = {
    "engine": "openai",
    "upstream": {
        "url": "http://127.0.0.1:1/v1",
        "model": "small",
        "server": "llama.cpp",
        "window": 4096,
        "others": {"large": {"url": "http://127.0.0.1:2/v1", "model": "big", "server": "vllm", "window": 2048}},
        "collections": {"animals": "large"},
    },
}


async def job_of(client: httpx.AsyncClient, reply: dict[str, Any]) -> Any:
    return (await client.pipeline.answers.record(reply["answer_id"]))["job"]  # type: ignore[attr-defined]


async def ask(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    reply = await client.post("/v1/query", json={"question": "What does the fox jump over?", **body})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


@pytest.mark.decoder_only("it names servers that the scripted worker does not have")
async def test_the_collection_chooses_the_server_of_questions_edits_and_conversations(
    world: World, make_client: Callable[..., Any]
) -> None:
    async with make_client(world.redis_url, world.data_dir, **SERVERS) as client:
        answer = await ask(client, collection="animals")
        assert (await job_of(client, answer)).upstream == "large"
        again = await ask(client, session_id=answer["session_id"])  # the session's collection
        assert (await job_of(client, again)).upstream == "large"
        edit = await client.post(f"/v1/answers/{answer['answer_id']}/edits", json={"instruction": "Shorter."})
        assert (await job_of(client, edit.json())).upstream == "large"
        plain = await ask(client, retrieval={"mode": "none"})
        assert (await job_of(client, plain)).upstream == "default"
        for model, upstream in (("rag:animals", "large"), ("small", "default")):
            body = {"model": model, "temperature": 0, "messages": [{"role": "user", "content": "Hello?"}]}
            chat = (await client.post("/v1/chat/completions", json=body)).json()
            assert (await job_of(client, chat["choices"][0])).upstream == upstream


@pytest.mark.decoder_only("it names servers that the scripted worker does not have")
async def test_rewrites_go_to_the_same_server(world: World, make_client: Callable[..., Any]) -> None:
    """And are kept apart from another model's."""
    async with make_client(world.redis_url, world.data_dir, **SERVERS) as client:
        jobs = []
        queue = client.pipeline.retrieval._rewriter._queue
        send = queue.enqueue_generate
        queue.enqueue_generate = lambda job: (jobs.append(job), send(job))
        world.stage.rewritten = "When does the fox jump?"
        first = await ask(client, collection="animals")
        then = await ask(client, question="And when?", session_id=first["session_id"])
        assert then["retrieval_query"] == "When does the fox jump?"
        assert [(job.upstream, job.sampling.exact) for job in jobs] == [("large", "default")]


@pytest.mark.decoder_only("it is about our own engine")
async def test_our_own_engine_names_no_server(client: httpx.AsyncClient) -> None:
    assert (await job_of(client, await ask(client, collection="animals"))).upstream is None


@pytest.mark.decoder_only("it names servers that the scripted worker does not have")
async def test_the_service_names_the_servers_model(world: World, make_client: Callable[..., Any]) -> None:
    async with make_client(world.redis_url, world.data_dir, **SERVERS) as client:
        ready = (await client.get("/readyz")).json()["model"]
        assert (ready["name"], ready["engine"]) == ("small", "openai")
        listed = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
        assert listed[0] == "small"
        assert "smollm2-135m" not in listed
        assert (await client.get("/v1/models/small")).status_code == 200
        assert (await client.get("/v1/models/smollm2-135m")).status_code == 404
        assert "127.0.0.1:1" not in (await client.get("/readyz")).text


async def test_it_needs_no_model_folder_and_has_the_smallest_window(world: World, tokens: Tokens) -> None:
    settings = make_settings(world.data_dir, **SERVERS)
    service = Service(settings, world.redis_url, embedder=HashEmbedder(), tokens=tokens)
    assert service.window == 2048
    await service.close()
