"""What is refused at /v1/messages, in Anthropic's format, and how keys come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from rag_service.api.anthropic_errors import error_document, status_of
from rag_service.contract.schemas import AnswerOptions
from rag_service.errors import BadGateway, InvalidRequest, Overloaded, Problem, StorageFull, TooLarge, no_worker
from tests.support.api_keys import add_key

MODEL = "smollm2-135m"
ASKED: list[Any] = [{"role": "user", "content": "What does the fox jump over?"}]
BASIC: dict[str, Any] = {"model": MODEL, "messages": ASKED, "max_tokens": 40}
JSON = {"Content-Type": "application/json"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Foxes jump."}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "high"}
SCHEMA = {"format": {"type": "json_schema", "schema": {"type": "thing"}}}


@pytest.fixture
def api(live_url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=live_url, api_key="sk-none", max_retries=0) as client:
        yield client


def message(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


NO_TOOLS = "a model server has its own template for tools"
REFUSED: list[Any] = [
    ({"model": "claude-of-elsewhere"}, "model_not_found", "GET /v1/models"),
    ({"model": "rag:nothing"}, "model_not_found", "rag:<collection>"),
    ({"extra_body": {"max_tokens": None}}, "invalid_request", "max_tokens"),
    ({"max_tokens": 0}, "invalid_request", "max_tokens"),
    ({"max_tokens": 5000}, "context_overflow", "window"),
    ({"messages": []}, "invalid_request", "messages"),
    ({"messages": [*ASKED, {"role": "assistant", "content": "It jumps"}]}, "invalid_request", "prefill"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "invalid_request", "role"),
    ({"messages": [{"role": "user", "content": 5}]}, "invalid_request", "must be a string"),
    (message(IMAGE), "invalid_request", "leave out the block of type 'image'"),
    (message(DOCUMENT), "invalid_request", "leave out the block of type 'document'"),
    (message({"type": "thinking", "thinking": "Hm.", "signature": "x"}), "invalid_request", "'thinking'"),
    (message({**RESULT, "content": [IMAGE]}), "invalid_request", "only text|leave out"),
    ({"messages": [*ASKED, {"role": "assistant", "content": [RESULT]}, *ASKED]}, "invalid_request", "tool_result"),
    ({"system": [IMAGE]}, "invalid_request", "'image'"),
    ({"stop_sequences": [""]}, "invalid_request", "stop_sequences"),
    ({"stop_sequences": ["x"] * 17}, "invalid_request", "at most 16"),
    ({"extra_body": {"temperature": 9}}, "invalid_request", "temperature"),
    ({"extra_body": {"temprature": 1}}, "invalid_request", "did you mean 'temperature'"),
    ({"extra_body": {"stop": ["x"]}}, "invalid_request", "no field 'stop'"),
    ({"extra_body": {"mcp_servers": []}}, "invalid_request", "mcp_servers"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "invalid_request", "no separate reasoning"),
    ({"output_config": {"effort": "low"}}, "invalid_request", "effort"),
    ({"output_config": SCHEMA}, "invalid_schema", "JSON schema"),
    ({"inference_geo": "us"}, "invalid_request", "it runs where you run it"),
    ({"container": "x"}, "invalid_request", "container"),
    pytest.param(
        {"extra_body": {"speculation": "small_model"}}, "invalid_request", "RAG_DRAFT_MODEL",
        marks=pytest.mark.decoder_only("a model server drafts in its own way"),
    ),
    ({"extra_body": {"logit_bias": {"99999": 1}}}, "invalid_request|not_supported_by_engine", "logit_bias"),
    pytest.param(
        {"tools": [{"name": "f", "input_schema": {}}]}, "unsupported_tools", "no tools",
        marks=pytest.mark.decoder_only(NO_TOOLS),
    ),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("changes", "code", "words"), REFUSED)
def test_refusals_are_anthropics_errors(
    api: anthropic.Anthropic, changes: dict[str, Any], code: str, words: str, stream: bool
) -> None:
    with pytest.raises(anthropic.APIStatusError) as error:
        api.messages.create(**{**BASIC, **changes, "stream": stream})
    found = error.value
    kinds = (anthropic.NotFoundError, "not_found_error"), (anthropic.BadRequestError, "invalid_request_error")
    assert (type(found), found.type) == kinds[code != "model_not_found"]
    assert found.error_code in code.split("|")
    assert any(one in str(found.api_message) for one in words.split("|")), found.api_message
    assert str(found.api_message).endswith((".", "?"))
    assert found.request_id == found.body["request_id"]  # type: ignore[index]
    assert str(found.request_id).startswith("req_")


def test_long_questions_to_a_collection_are_too_large(api: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.ContentTooLargeError) as error:
        api.messages.create(**{**BASIC, "model": "rag:animals", **message({"type": "text", "text": "x" * 9000})})
    assert error.value.type == "request_too_large"
    body = b"x" * (2 * 2**20 + 1)
    response = httpx.post(f"{api.base_url}/v1/messages", content=body, headers=JSON)
    assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")


def test_errors_before_and_beside_the_routes(live_url: str) -> None:
    for response, status, kind in (
        (httpx.get(f"{live_url}/v1/messages"), 405, "invalid_request_error"),
        (httpx.post(f"{live_url}/v1/messages/batches", json={}), 404, "not_found_error"),
        (httpx.post(f"{live_url}/v1/messages", content=b"{", headers=JSON), 400, "invalid_request_error"),
        (httpx.post(f"{live_url}/v1/messages", content=b"{}"), 415, "invalid_request_error"),
        (httpx.post(f"{live_url}/v1/messages", json=BASIC, headers={"Origin": "https://x.example"}), 403,
         "permission_error"),
        (httpx.post(f"{live_url}/v1/messages", json=BASIC, headers={"x-api-key": "rag_x"}), 401,
         "authentication_error"),
    ):  # fmt: skip
        body = response.json()
        assert (response.status_code, body["type"], body["error"]["type"]) == (status, "error", kind)
        assert response.headers["request-id"] == body["request_id"]
    assert "allow" in httpx.get(f"{live_url}/v1/messages").headers
    elsewhere = httpx.post(f"{live_url}/v1/query", json={})
    assert elsewhere.json()["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("problem", "status", "kind"),
    [
        (InvalidRequest("x."), 400, "invalid_request_error"),
        (TooLarge("x."), 413, "request_too_large"),
        (Overloaded("x.", retry_after=5), 429, "rate_limit_error"),
        (no_worker(), 503, "overloaded_error"),
        (BadGateway("x."), 502, "api_error"),
        (StorageFull("x."), 507, "api_error"),
        (Problem("x."), 500, "api_error"),
    ],
)
def test_every_problem_has_anthropics_type(problem: Problem, status: int, kind: str) -> None:
    assert status_of(problem) == status
    assert error_document(problem)["error"]["type"] == kind


async def test_a_full_queue_and_no_worker_say_when_to_try_again(world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, limits={"queued": 1}) as client:
        pipeline = client.pipeline
        pipeline.queue.depth = lambda: 1
        full = await client.post("/v1/messages", json=BASIC)
        assert (full.status_code, full.json()["error"]["type"]) == (429, "rate_limit_error")
        assert int(full.headers["retry-after"]) > 0
        pipeline.queue.workers = lambda: []
        away = await client.post("/v1/messages", json=BASIC)
        assert (away.status_code, away.json()["error"]["type"]) == (503, "overloaded_error")
        assert int(away.headers["retry-after"]) > 0


@pytest.mark.decoder_only("its engine is made to fail; failing model servers have tests of their own")
def test_an_answer_that_fails_is_an_error(
    api: anthropic.Anthropic, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sequence: Any) -> None:
        raise ValueError("the engine does not want to")

    monkeypatch.setattr(world.place.runtime._engine, "_before_step", fail)
    with pytest.raises(anthropic.BadRequestError, match="does not want to"):
        api.messages.create(**BASIC)
    with pytest.raises(anthropic.APIStatusError, match="does not want to") as error, api.messages.stream(**BASIC) as s:
        s.until_done()
    assert error.value.type == "invalid_request_error"
    assert error.value.body["request_id"] == error.value.request_id  # type: ignore[index]


async def test_a_key_comes_in_either_header(world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        made, key = add_key(client.pipeline.api_keys, "anthropic", "anthropic")
        refused = await client.post("/v1/messages", json=BASIC)
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        assert "x-api-key" in refused.json()["error"]["message"]
        assert refused.headers["www-authenticate"].startswith("Bearer")
        for headers in ({"x-api-key": key}, {"Authorization": f"Bearer {key}"}):
            assert (await client.post("/v1/messages", json=BASIC, headers=headers)).status_code == 200
            assert (await client.get("/v1/models", headers=headers)).status_code == 200
        both = {"x-api-key": key, "Authorization": "Bearer rag_wrong"}
        assert (await client.get("/v1/models", headers=both)).status_code == 401
        for wrong in ("", " ", f"{key}x", "one two"):
            response = await client.get("/v1/sessions", headers={"x-api-key": wrong})
            assert (response.status_code, response.json()["code"]) == (401, "invalid_key")
        client.pipeline.api_keys.revoke(made.id)


def test_fields_of_answers_are_offered_or_renamed() -> None:
    """A new option of answers has to be decided on here too."""
    from rag_service.anthropic.schemas import MessagesRequest

    renamed = {"stop"}
    of_sessions = {"on_conflict"}
    assert set(AnswerOptions.model_fields) - set(MessagesRequest.model_fields) == renamed | of_sessions
