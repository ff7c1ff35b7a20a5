"""What a model server cannot do is refused, by name, before any worker sees it; what changes only the speed is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import httpx
import pytest

from rag_service.answering import engine_limits
from rag_service.answering.admission import Admission
from rag_service.answering.engine_limits import capabilities_of, check, check_tools
from rag_service.anthropic.request import check_engine
from rag_service.anthropic.schemas import MessagesRequest
from rag_service.contract.schemas import QueryRequest
from rag_service.errors import BadRequest, InvalidRequest
from rag_service.prompting.conversation import Conversation
from rag_service.settings import Settings
from tests.rag_service.conftest import World
from workers.broker.capabilities import DECODER, Capabilities
from workers.broker.sampling import SamplingFields

LEAST = Capabilities(
    engine="upstream",
    exact_speculation=False,
    token_ids=False,
    logprobs=False,
    check=False,
    seeds=False,
    grammar=False,
    json_schema=False,
    tools=False,
    continuation=False,
    prediction=False,
    sampling=frozenset({"temperature", "top_p"}),
    hottest=2.0,
)
UPSTREAM: dict[str, Any] = {
    "engine": "openai",
    "upstream": {"url": "http://127.0.0.1:1/v1", "model": "small", "server": "openai"},
}


def test_bits_are_promised_only_where_passes_keep_them() -> None:
    request = QueryRequest(question="What?", exact="bitwise")
    check(request, DECODER, bitwise=True)
    with pytest.raises(BadRequest, match="start the service with RAG_EXACT=bitwise"):
        check(request, DECODER)
    with pytest.raises(BadRequest, match="cannot honour `exact`"):
        check(request, LEAST, bitwise=True)


@pytest.mark.parametrize(
    ("setting", "found", "promised"),
    [
        ("auto", ["bitwise", "bitwise"], True),
        ("auto", ["bitwise", "default"], False),
        ("auto", ["bitwise", None], False),  # a worker of a version that did not say
        ("auto", [], True),  # no worker is another problem, and said as such
        ("bitwise", [None], True),
        ("default", ["bitwise"], False),
    ],
)
def test_without_insisting_every_worker_has_to_have_found_its_passes_bitwise(
    setting: Any, found: list[str | None], promised: bool
) -> None:
    queue, tokens = mock.Mock(), mock.Mock(hash="t")
    queue.workers.return_value = [{"tokenizer": "t", "exact": exact} for exact in found]
    queue.workers.return_value.append({"tokenizer": "of another model"})
    admission = Admission(Settings(exact=setting), tokens, queue, mock.Mock())
    request = QueryRequest(question="What?", exact="bitwise")
    with nullcontext() if promised else pytest.raises(BadRequest, match="passes are not bitwise"):
        admission.check_engine(request, None)


@pytest.mark.parametrize(
    ("settings", "drafter", "found", "refused"),
    [
        ({}, "small_model", [{}], "needs a draft model"),
        ({}, "copyspec+small_model", [{}], "RAG_DRAFT_MODEL"),
        ({}, "small_model", [], None),  # nothing is answered anyway
        ({}, "small_model", [{"draft_model": None}, {"draft_model": "tiny"}], None),
        ({"draft_model": "tiny"}, "casd+small_model", [{}], None),
        ({"draft_model": "tiny"}, "small_model", [{"draft_model": None}], "needs a draft model"),
        ({}, "eagle", [{}], None),  # the package may have a head
        ({}, "copyspec+eagle", [{"eagle_head": None}], "needs an EAGLE head"),
        ({}, "eagle", [{"eagle_head": "shipped"}], None),
        ({"eagle_head": "off"}, "casd+eagle", [{}], "RAG_EAGLE_HEAD"),
        ({"sdsat_adapters": "off"}, "sdsat", [{}], "needs SDSAT adapters"),
        ({}, "sdsat_two_step", [{"sdsat_adapters": None}], "RAG_SDSAT_ADAPTERS"),
        ({}, "sdsat", [{}], None),
        ({}, "auto", [{"draft_model": None, "eagle_head": None}], None),
        ({}, None, [{}], None),
    ],
)
@pytest.mark.parametrize("options", [str, lambda drafter: {"drafter": drafter}])
def test_a_drafter_is_refused_where_what_it_needs_is_not_there(
    settings: dict[str, Any], drafter: str | None, found: list[dict[str, Any]], refused: str | None, options: Any
) -> None:
    queue, tokens = mock.Mock(), mock.Mock(hash="t")
    queue.workers.return_value = [{"tokenizer": "t", **worker} for worker in found]
    queue.workers.return_value.append({"tokenizer": "of another model", "draft_model": "tiny"})
    admission = Admission(Settings(**settings), tokens, queue, mock.Mock())
    request = QueryRequest(question="What?", speculation=drafter and options(drafter))
    with pytest.raises(InvalidRequest, match=refused) if refused else nullcontext():
        admission.check_engine(request, None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"logit_bias": {"1": 1.0}}, "logit_bias"),
        ({"exact": "strict"}, "exact"),
        ({"top_k": 5}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"temperature": 0.5, "seed": 1}, "seed"),
        ({"temperature": 2.1}, "temperature"),
    ],
)
def test_a_query_for_what_the_engine_lacks_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    request = QueryRequest(question="What?", **fields)
    check(request, DECODER)
    check(request, replace(DECODER, engine="upstream"))
    with pytest.raises(BadRequest, match=f"cannot honour `{name}`") as refused:
        check(request, LEAST)
    assert (refused.value.code, refused.value.extra["param"]) == ("not_supported_by_engine", name)


@pytest.mark.parametrize(
    "fields",
    [
        {"speculation": "off"},
        {"speculation": "auto"},
        {"speculation": {"drafter": "pld", "max_nodes": 4}},
        {"prediction": "This."},
        {"seed": 5},
        {"temperature": 0.7, "top_p": 0.9, "stop": ["\n"], "max_tokens": 9},
        {"logit_bias": {}, "exact": "default", "abstain": "refuse"},
        {name: field.default for name, field in SamplingFields.model_fields.items()},
    ],
)
def test_speed_and_neutral_values_are_accepted(fields: dict[str, Any]) -> None:
    check(QueryRequest(question="What?", **fields), LEAST)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"logprobs": 0}, "logprobs"),
        ({"json_schema": {"type": "object"}}, "response_format"),
        ({"tools": ("{}",)}, "tools"),
        ({"prompt": "Once upon a time"}, "prompt"),
    ],
)
def test_a_conversation_for_what_the_engine_lacks_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    conversation = Conversation(**fields)
    check(conversation, DECODER)
    with pytest.raises(BadRequest, match=f"cannot honour `{name}`"):
        check(conversation, LEAST)


def test_tools_may_be_offered_where_they_cannot_be_forced() -> None:
    check_tools(True, False, replace(LEAST, tools=True))
    with pytest.raises(BadRequest, match="`tool_choice`"):
        check_tools(True, True, replace(LEAST, tools=True))
    with pytest.raises(BadRequest, match="`tools`"):
        check_tools(True, False, LEAST)
    check_tools(False, False, LEAST)


def test_capabilities_are_those_of_the_server_that_answers() -> None:
    vllm = {"url": "http://127.0.0.1:2/v1", "model": "big", "server": "vllm"}
    settings = Settings(engine="openai", upstream={**UPSTREAM["upstream"], "others": {"large": vllm}})
    assert "top_k" not in capabilities_of(settings, "default").sampling
    assert "top_k" in capabilities_of(settings, "large").sampling
    assert capabilities_of(settings, None) == capabilities_of(settings, "default")
    assert capabilities_of(Settings(), None) == DECODER
    assert not capabilities_of(Settings(), "large").token_ids  # an answer of earlier settings


@pytest.fixture
async def upstream(world: World, make_client: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(world.redis_url, world.data_dir, **UPSTREAM) as client:
        yield client


@pytest.mark.parametrize("fields", [{"logit_bias": {"1": 1.0}}, {"exact": "strict"}, {"top_k": 5, "temperature": 1.0}])
@pytest.mark.parametrize("collection", [{"collection": "animals"}, {}])
async def test_queries_and_edits_are_refused_before_a_worker_sees_them(
    upstream: httpx.AsyncClient, world: World, fields: dict[str, Any], collection: dict[str, Any]
) -> None:
    refused = await upstream.post("/v1/query", json={"question": "What?", **collection, **fields})
    assert refused.status_code == 400
    problem = refused.json()
    assert (problem["code"], problem["param"] in fields) == ("not_supported_by_engine", True)
    assert world.stage.prompts == []
    answer = (await upstream.post("/v1/query", json={"question": "What?", "collection": "animals"})).json()
    edit = await upstream.post(f"/v1/answers/{answer['answer_id']}/edits", json={"instruction": "Go on.", **fields})
    assert (edit.status_code, edit.json()["code"]) == (400, "not_supported_by_engine")
    again = await upstream.post("/v1/query", json={"question": "What?", "session_id": answer["session_id"]})
    assert again.status_code == 200  # the refusals claimed no turn


async def test_token_ids_are_refused(upstream: httpx.AsyncClient) -> None:
    answer = (await upstream.post("/v1/query", json={"question": "What?", "collection": "animals"})).json()
    path = f"/v1/answers/{answer['answer_id']}"
    refused = await upstream.get(f"{path}?token_ids=true")
    assert (refused.status_code, refused.json()["code"]) == (400, "not_supported_by_engine")
    assert (await upstream.get(path)).status_code == 200


@pytest.mark.decoder_only("it is about our own engine")
async def test_our_own_engine_takes_all_of_it(client: httpx.AsyncClient) -> None:
    fields = {"logit_bias": {"1": 1.0}, "exact": "strict", "top_k": 5}
    answer = (await client.post("/v1/query", json={"question": "What?", "collection": "animals", **fields})).json()
    assert (await client.get(f"/v1/answers/{answer['answer_id']}?token_ids=true")).json()["token_ids"]


CHAT = {"model": "default", "temperature": 0, "messages": [{"role": "user", "content": "Hello?"}]}
TOOLS = [{"type": "function", "function": {"name": "jump"}}]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"top_k": 5}, "top_k"),
        ({"tools": TOOLS, "tool_choice": "required"}, "tool_choice"),
    ],
)
async def test_openais_endpoints_refuse_in_openais_form(
    upstream: httpx.AsyncClient, fields: dict[str, Any], name: str
) -> None:
    refused = await upstream.post("/v1/chat/completions", json={**CHAT, **fields})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "not_supported_by_engine", name)
    assert (await upstream.post("/v1/chat/completions", json=CHAT)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"top_k": 5}, "top_k"),
        ({"tools": [{"name": "jump", "input_schema": {}}], "tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
async def test_anthropics_endpoints_refuse_in_anthropics_form(
    upstream: httpx.AsyncClient, fields: dict[str, Any], name: str
) -> None:
    body = {**CHAT, "max_tokens": 40}
    refused = await upstream.post("/v1/messages", json={**body, **fields})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["details"]["error_code"]) == ("invalid_request_error", "not_supported_by_engine")
    assert f"`{name}`" in error["message"]
    assert (await upstream.post("/v1/messages", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"seed": 5, "temperature": 1}, "seed"),
        ({"tools": [{"name": "jump", "input_schema": {}}]}, "tools"),
    ],
)
def test_anthropics_fields_are_refused_by_their_own_names(fields: dict[str, Any], name: str) -> None:
    body = MessagesRequest.model_validate({**CHAT, "max_tokens": 40, **fields})
    check_engine(body, DECODER)
    with pytest.raises(BadRequest, match=f"`{name}`") as refused:
        check_engine(body, LEAST)
    assert refused.value.extra["param"] == name


async def test_a_text_without_roles_is_refused_and_a_question_is_not(upstream: httpx.AsyncClient) -> None:
    body = {"model": "default", "prompt": "Once upon a time", "temperature": 0}
    refused = await upstream.post("/v1/completions", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
    assert (await upstream.post("/v1/completions", json={**body, "model": "rag:animals"})).status_code == 200


def test_the_refusal_says_what_to_do() -> None:
    assert "leave it out" in engine_limits.no_seeds().detail
