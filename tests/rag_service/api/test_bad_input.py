"""Bad input is refused with a 4xx, a stable code and a sentence; what is away gives 503 with Retry-After."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.answering.pipeline import Pipeline
from rag_service.api import sse
from rag_service.api.problems import MEDIA_TYPE
from rag_service.contract.schemas import QueryRequest
from rag_service.main import create_app
from rag_service.setting_sections import Retrieval
from retriever import EmbedderUnavailable
from tests.rag_service.conftest import make_settings
from tests.support.hash_embedder import HashEmbedder
from workers.broker.embedded_redis import EmbeddedRedis


def check_problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert (problem["status"], problem["code"]) == (status, code)
    assert not problem["detail"][0].islower()
    assert problem["detail"].endswith((".", "!", "?"))
    assert "Traceback" not in problem["detail"]
    return problem


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"question": ""}, "question"),
    ({"question": " \n\t"}, "question is empty"),
    ({"question": 5}, "question"),
    ({"question": None}, "question"),
    ({"question": ["What?"]}, "question"),
    ({"question": "half \ud83d"}, "surrogate"),
    ({"collection": 7}, "collection"),
    ({"collection": "no/such name"}, "not a collection name"),
    ({"session_id": "a b"}, "Field 'session_id' should be 1 to 64 letters (a to z), digits, '-' or '_', got 'a b'."),
    ({"retrieval": {"document_id": "a/b"}}, "'retrieval.document_id' should be 1 to 200 characters, without '/' and"),
    ({"session_id": ""}, "session_id"),
    ({"stream": "yes"}, "stream"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": "12"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": float("nan")}, "'temperature' must be a finite number"),
    ({"temperature": float("inf")}, "finite"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_p": float("-inf")}, "finite"),
    ({"top_k": -1}, "top_k"),
    ({"min_p": 1}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": float("nan")}, "finite"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 1000}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"seed": "lucky"}, "seed"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": 3}, "stop"),
    ({"retrieval": 5}, "retrieval"),
    ({"retrieval": {"top_k": 0}}, "retrieval.top_k"),
    ({"retrieval": {"top_k": 1000}}, "top_k"),
    ({"retrieval": {"mode": "magic"}}, "retrieval.mode"),
    ({"retrieval": {"filter": "x"}}, "retrieval.filter"),
    ({"retrieval": {"filter": {"x": float("nan")}}}, "finite"),
    ({"speculation": "warp"}, "speculation"),
    ({"speculation": {"drafter": "warp"}}, "speculation"),
    ({"speculation": {"max_nodes": 0}}, "speculation"),
    ({"max_token": 5}, "did you mean 'max_tokens'"),
    ({"prediction": 5}, "prediction"),
    ({"prediction": {"type": "content"}}, "prediction.content"),
    ({"prediction": {"type": "text", "content": "x"}}, "prediction.type"),
    ({"prediction": {"type": "content", "content": [{"type": "text", "text": 5}]}}, "prediction.content[0].text"),
    ({"on_conflict": "fight"}, "on_conflict"),
    ({"exact": "mostly"}, "exact"),
    ({"exact": "mostly"}, "exact"),
]


@pytest.mark.parametrize(
    ("change", "named"), BAD_FIELDS, ids=[f"{n}-{next(iter(c))}" for n, (c, _) in enumerate(BAD_FIELDS)]
)
async def test_a_bad_field_is_named(client: httpx.AsyncClient, change: dict[str, Any], named: str) -> None:
    body = json.dumps({"question": "What jumps?", "collection": "animals", **change})
    response = await client.post("/v1/query", content=body, headers={"Content-Type": "application/json"})
    problem = check_problem(response, 422, "invalid_request")
    assert named in problem["detail"]
    assert len(problem["detail"]) < 600


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"", 422, "invalid_request"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b'{"question": ' + b"9" * 5000 + b"}", 400, "invalid_json"),
        (
            b'{"question": "x", "retrieval": {"filter": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}}",
            422,
            "invalid_request",
        ),
        (b"[]", 422, "invalid_request"),
        (b'"x"', 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b"{}", 422, "invalid_request"),
    ],
    ids=["cut", "empty", "not-utf8", "deep", "long-number", "deep-filter", "list", "string", "null", "no-question"],
)
async def test_a_malformed_body_is_refused(client: httpx.AsyncClient, body: bytes, status: int, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    check_problem(await client.post("/v1/query", content=body, headers=headers), status, code)


async def test_a_field_of_two_kinds_is_said_to_be_wrong_once(client: httpx.AsyncClient) -> None:
    body = {"question": "x", "speculation": "turbo"}
    detail = check_problem(await client.post("/v1/query", json=body), 422, "invalid_request")["detail"]
    assert detail.startswith("Field 'speculation' should be 'off', 'auto', ")
    assert detail.endswith("got 'turbo'.")
    assert "dictionary" not in detail
    assert detail.count("got 'turbo'") == 1


async def test_a_form_instead_of_json_is_refused(client: httpx.AsyncClient) -> None:
    check_problem(await client.post("/v1/query", data={"question": "x"}), 415, "unsupported_media_type")


async def test_a_ten_megabyte_question_is_refused(make_client: Any, world: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, limits={"body_bytes": 16 * 2**20}) as client:
        answer = await client.post("/v1/query", json={"question": "x" * 10_000_000})
    problem = check_problem(answer, 413, "question_too_long")
    assert "10,000,000" in problem["detail"]
    assert "8,000" in problem["detail"]


async def test_a_body_above_the_limit_is_cut_off(client: httpx.AsyncClient) -> None:
    big = b'{"question": "' + b"x" * 17_000_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    check_problem(await client.post("/v1/query", content=big, headers=headers), 413, "body_too_large")

    async def without_length() -> Any:
        for start in range(0, len(big), 1 << 20):
            yield big[start : start + (1 << 20)]

    check_problem(await client.post("/v1/query", content=without_length(), headers=headers), 413, "body_too_large")


async def test_a_prompt_beyond_the_window_says_what_to_lower(client: httpx.AsyncClient) -> None:
    for body in ({"question": "why " * 1500}, {"question": "Why?", "max_tokens": 30_000}):
        response = await client.post("/v1/query", json={"collection": "animals", **body})
        problem = check_problem(response, 400, "context_overflow")
        assert problem["window"] == 1200
        assert f"{problem['prompt_tokens']:,}" in problem["detail"]
        assert "max_tokens" in problem["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/answers/none", 404, "unknown_answer"),
        ("GET", "/v1/answers/none/events", 404, "unknown_answer"),
        ("DELETE", "/v1/answers/none", 404, "unknown_answer"),
        ("GET", "/v1/sessions/none", 404, "unknown_session"),
        ("DELETE", "/v1/sessions/none", 404, "unknown_session"),
        ("GET", "/v1/sessions?limit=0", 422, "invalid_request"),
        ("GET", "/v1/collections/none", 404, "unknown_collection"),
        ("DELETE", "/v1/collections/none", 404, "unknown_collection"),
        ("GET", "/v1/collections/none/documents", 404, "unknown_collection"),
        ("GET", "/v1/collections/animals/documents/none", 404, "unknown_document"),
        ("DELETE", "/v1/collections/animals/documents/none", 404, "unknown_document"),
        ("GET", "/v1/collections/animals/documents?limit=x", 422, "invalid_request"),
        ("GET", "/v1/collections/..%2f..%2fetc", 404, "not_found"),
        ("GET", "/v1/collections/-x", 422, "invalid_request"),
        ("GET", "/v1/jobs/none", 404, "unknown_job"),
        ("DELETE", "/v1/jobs/none", 404, "unknown_job"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("PUT", "/v1/query", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_there_is_named(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    check_problem(await client.request(method, path), status, code)


async def test_unknown_collections_are_404_everywhere(client: httpx.AsyncClient) -> None:
    for path, body in (
        ("/v1/query", {"question": "x", "collection": "none"}),
        ("/v1/query", {"question": "x", "collection": "none", "retrieval": {"mode": "none"}}),
        ("/v1/collections/none/search", {"question": "x"}),
        ("/v1/collections/none/documents", {"documents": [{"text": "x"}]}),
    ):
        check_problem(await client.post(path, json=body), 404, "unknown_collection")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"documents": []}, "documents"),
        ({"documents": "x"}, "documents"),
        ({"documents": [{"text": ""}]}, "documents[0].text"),
        ({"documents": [{"text": 5}]}, "documents[0].text"),
        ({"documents": [{"text": "x", "titel": "y"}]}, "did you mean 'title'"),
        ({"documents": [{"text": "x", "id": "a/b"}]}, "documents[0].id"),
        ({"documents": [{"text": "x", "metadata": {"a": float("nan")}}]}, "finite"),
        ({"documents": [{"text": "\ud800"}]}, "surrogate"),
    ],
)
async def test_bad_documents_are_refused(client: httpx.AsyncClient, body: Any, named: str) -> None:
    content = json.dumps(body)
    headers = {"Content-Type": "application/json"}
    response = await client.post("/v1/collections/animals/documents", content=content, headers=headers)
    assert named in check_problem(response, 422, "invalid_request")["detail"]


async def test_uploads_without_files_or_with_too_many_are_refused(make_client: Any, world: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, limits={"upload_files": 2, "upload_bytes": 5000}) as client:
        url = "/v1/collections/animals/documents"
        one = ("files", ("a.txt", b"text"))
        check_problem(await client.post(url, files=[one] * 3), 413, "too_many_documents")
        empty = {"Content-Type": "multipart/form-data; boundary=x"}
        check_problem(await client.post(url, content=b"--x--\r\n", headers=empty), 422, "invalid_request")
        check_problem(await client.post(url, content=b"rubbish", headers=empty), 400, "bad_request")
        check_problem(await client.post(url, files=[("files", ("a.txt", b"x" * 6000))]), 413, "body_too_large")
        json_type = {"Content-Type": "application/json"}
        check_problem(await client.post(url, content=b"{", headers=json_type), 400, "invalid_json")
        assert not list((world.data_dir / "uploads").glob("*/[0-9]*"))


async def test_redis_away_is_503_with_retry_after(make_client: Any, data_dir: Path, tmp_path: Path) -> None:
    known = "0" * 32
    async with make_client(f"unix://{tmp_path / 'nobody.sock'}", data_dir) as client:
        for method, path, body in (
            ("POST", "/v1/query", {"question": "x", "collection": "animals"}),
            ("POST", "/v1/query", {"question": "x", "collection": "animals", "stream": True}),
            ("GET", f"/v1/answers/{known}", None),
            ("GET", f"/v1/answers/{known}/events", None),
            ("DELETE", f"/v1/answers/{known}", None),
            ("GET", "/v1/sessions", None),
            ("GET", f"/v1/jobs/{known}", None),
            ("POST", "/v1/collections/animals/documents", {"documents": [{"text": "x"}]}),
        ):
            response = await client.request(method, path, json=body)
            check_problem(response, 503, "redis_unavailable")
            assert int(response.headers["retry-after"]) > 0
        ready = await client.get("/readyz")
        assert check_problem(ready, 503, "not_ready")["checks"]["index"] == "ok"
        assert (await client.get("/healthz")).status_code == 200
        assert "rag_redis_up 0" in (await client.get("/metrics")).text
        search = await client.post("/v1/collections/animals/search", json={"question": "fox"})
        assert search.status_code == 200


async def test_worker_away_is_503_and_nothing_is_enqueued(make_client: Any, world: Any, tokens: Any) -> None:
    async with make_client(world.redis_url, world.data_dir) as client:
        client.pipeline.queue.workers = lambda: []
        for path, body in (
            ("/v1/query", {"question": "x", "collection": "animals", "session_id": "lonely"}),
            ("/v1/collections/animals/documents", {"documents": [{"text": "x"}]}),
        ):
            response = await client.post(path, json=body)
            check_problem(response, 503, "no_worker")
            assert int(response.headers["retry-after"]) > 0
        assert not client.pipeline.sessions.exists("default", "lonely")
        assert check_problem(await client.get("/readyz"), 503, "not_ready")["checks"]["redis"] == "ok"
        client.pipeline.queue.workers = lambda: [{"name": "w", "tokenizer": "another"}]
        check_problem(await client.post("/v1/query", json={"question": "x"}), 503, "no_worker")
        assert "another model" in (await client.get("/readyz")).json()["checks"]["worker"]


async def test_a_full_queue_is_429(make_client: Any, world: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, limits={"queued": 3}) as client:
        client.pipeline.queue.depth = lambda: 3
        response = await client.post("/v1/query", json={"question": "x", "collection": "animals"})
        check_problem(response, 429, "queue_full")
        assert int(response.headers["retry-after"]) > 0


async def test_an_unexpected_error_shows_no_trace(make_client: Any, world: Any, caplog: Any) -> None:
    async with make_client(world.redis_url, world.data_dir) as client:

        def fail() -> None:
            raise ZeroDivisionError("secret detail")

        client.pipeline.admission.check_capacity = fail
        response = await client.post("/v1/query", json={"question": "x"})
        assert "secret" not in check_problem(response, 500, "internal_error")["detail"]
        assert "secret detail" in caplog.text


async def test_a_slow_answer_is_not_lost(make_client: Any, world: Any) -> None:
    world.stage.hold_at = 3
    async with make_client(world.redis_url, world.data_dir, answers={"timeout": 0.2}) as client:
        response = await client.post("/v1/query", json={"question": "x", "collection": "animals"})
        problem = check_problem(response, 503, "answer_timeout")
        world.stage.open.set()
        async for _ in client.pipeline.answers.events(problem["answer_id"]):
            pass
        answer = (await client.get(f"/v1/answers/{problem['answer_id']}")).json()
        assert answer["answer"] == world.stage.text


@pytest.mark.decoder_only("it tells of the model that our engine loads")
async def test_ready_when_everything_is_there(client: httpx.AsyncClient) -> None:
    ready = (await client.get("/readyz")).json()
    assert ready["checks"] == {"redis": "ok", "worker": "ok", "index": "ok"}
    assert ready["model"] == {
        "name": "smollm2-135m",
        "toy": True,
        "note": "a small demo model for tests; its answers are often wrong",
        "dtype": "float32",
    }
    metrics = (await client.get("/metrics")).text
    assert "rag_redis_up 1" in metrics
    assert 'rag_queue_depth{queue="generate"} 0' in metrics


class _SlowEmbedder(HashEmbedder):
    def __init__(self, may_load: threading.Event, error: str = "") -> None:
        super().__init__()
        self.may_load, self.error = may_load, error

    def load(self) -> None:
        assert self.may_load.wait(30)
        if self.error:
            raise EmbedderUnavailable(self.error)


@pytest.mark.parametrize(("mode", "error"), [("hybrid", ""), ("hybrid", "broken"), ("lexical", "")])
async def test_not_ready_until_the_embedding_model_is_loaded(world: Any, mode: Any, error: str) -> None:
    settings = make_settings(world.data_dir, retrieval=Retrieval(mode=mode), **world.settings)
    embedder = _SlowEmbedder(threading.Event(), error)
    pipeline = Pipeline(settings, world.redis_url, embedder=embedder, tokens=world.tokens, window=1200)
    app = create_app(pipeline=pipeline)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://rag") as client,
    ):
        if mode == "hybrid":
            checks = check_problem(await client.get("/readyz"), 503, "not_ready")["checks"]
            assert checks["index"] == "the embedding model is still loading"
            assert (await client.get("/healthz")).status_code == 200
            embedder.may_load.set()
            assert pipeline._warming is not None
            pipeline._warming.join(30)
        assert (await client.get("/readyz")).status_code == 200


async def test_redis_that_goes_away_interrupts_a_stream_and_loses_nothing(
    make_client: Any, data_dir: Path, tmp_path: Path, parse: Any
) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    async with make_client(server.start(), data_dir) as client:
        pipeline = client.pipeline
        pipeline.queue.workers = lambda: [{"name": "busy elsewhere"}]
        answer_id = await pipeline.answer(QueryRequest(question="What jumps?", collection="animals"))
        events = sse.events(pipeline, (await pipeline.answers.record(answer_id))["job"], "0-0")
        (first,) = parse(await anext(events))
        assert first[1] == "passages"
        server.stop()
        (interrupted,) = parse(await anext(events))
        assert (interrupted[0], interrupted[1], interrupted[2]["code"]) == (None, "error", "redis_unavailable")
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    with EmbeddedRedis(tmp_path / "redis") as again:
        async with make_client(again.url, data_dir) as client:
            kept = (await client.get(f"/v1/answers/{answer_id}")).json()
            assert (kept["status"], kept["passages"]) == ("queued", first[2]["passages"])
            assert client.pipeline.queue.depth() == 1
