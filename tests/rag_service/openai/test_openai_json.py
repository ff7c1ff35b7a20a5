"""Answers held to JSON schemas and log-probabilities, over HTTP, from a real engine with a tiny model."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from decoder import Engine
from retriever import Library
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.tokenizer import Tokens

ASKED: list[Any] = [{"role": "user", "content": "Who jumps?"}]
SCHEMA = {
    "type": "object",
    "properties": {"who": {"enum": ["fox", "dog"]}, "times": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["who", "times"],
    "additionalProperties": False,
}
FORM: Any = {"type": "json_schema", "json_schema": {"name": "jump", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, tokens: Tokens, data_dir: Path) -> Iterator[Any]:
    engine = Engine(tiny_target(vocab_size=tokens.vocab_size, window=1200, memory=0.05), "auto", tokens.eos_ids)
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        place = make_worker_context(
            server.url, tokens, engine, Library(data_dir, HashEmbedder()), data_dir / "uploads", kv_cache_bytes=2**26
        )
        with running_worker(server.url, place, info={"model": "tiny", "tokenizer": tokens.hash}):
            while not place.client.exists(keys.WORKERS):
                time.sleep(0.01)
            yield SimpleNamespace(redis_url=server.url, data_dir=data_dir, tokens=tokens, place=place, window=1200)


@pytest.fixture
def api(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def jump_of(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text or "")
    assert set(found) == {"who", "times"}
    assert found["who"] in ("fox", "dog")
    assert 1 <= found["times"] <= 9
    return found


@pytest.mark.parametrize("model", ["default", "rag:animals"])
def test_answers_follow_the_schema(api: openai.OpenAI, model: str) -> None:
    replies = {}
    for drafter in ("off", "auto", "pld"):
        reply = api.chat.completions.create(
            model=model, messages=ASKED, response_format=FORM, n=3, seed=5, extra_body={"speculation": drafter}
        )
        assert {choice.finish_reason for choice in reply.choices} == {"stop"}
        replies[drafter] = [choice.message.content for choice in reply.choices]
        for text in replies[drafter]:
            jump_of(text)
    assert replies["off"] == replies["auto"] == replies["pld"]
    assert len(set(replies["off"])) > 1  # the choice's index is part of the noise


def test_a_streamed_answer_follows_it_too(api: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "default", "messages": ASKED, "response_format": FORM, "seed": 6}
    whole = api.chat.completions.create(**asked).choices[0].message.content
    chunks = api.chat.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    jump_of(whole)


def test_any_object_and_completions(api: openai.OpenAI) -> None:
    reply = api.chat.completions.create(
        model="default", messages=ASKED, response_format={"type": "json_object"}, temperature=0, max_tokens=200
    )
    text = reply.choices[0].message.content or ""
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert text.startswith("{")
    jump_of(api.completions.create(model="default", prompt="Who", extra_body={"response_format": FORM}).choices[0].text)


def test_parsing_as_the_client_offers_it(api: openai.OpenAI) -> None:
    from pydantic import BaseModel

    class Jump(BaseModel):
        high: bool
        times: list[bool]

    reply = api.chat.completions.parse(model="default", messages=ASKED, response_format=Jump, seed=1, max_tokens=300)
    assert isinstance(reply.choices[0].message.parsed, Jump)


def test_log_probabilities_of_a_real_model(api: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "default", "messages": ASKED, "seed": 3, "max_tokens": 12, "temperature": 0}
    content = {}
    for drafter in ("off", "auto"):
        reply = api.chat.completions.create(**asked, logprobs=True, top_logprobs=4, extra_body={"speculation": drafter})
        assert reply.choices[0].logprobs is not None
        content[drafter] = reply.choices[0].logprobs.content or []
    assert content["off"]
    for one, other in zip(content["off"], content["auto"], strict=True):
        assert (one.token, one.bytes) == (other.token, other.bytes)
        assert one.logprob == pytest.approx(other.logprob)
        assert one.logprob == one.top_logprobs[0].logprob  # greedy
        assert sum(math.exp(top.logprob) for top in one.top_logprobs) <= 1.0
    assert api.chat.completions.create(**asked).choices[0].logprobs is None


def test_a_conversation_sent_again_begins_on_what_is_kept_of_it(api: openai.OpenAI) -> None:
    history: list[Any] = [{"role": "system", "content": "Nobody has said these words before, has anybody?"}, *ASKED]
    first = api.chat.completions.create(model="default", messages=history, temperature=0, max_tokens=8)
    history += [{"role": "assistant", "content": first.choices[0].message.content}, *ASKED]
    fresh = api.chat.completions.create(model="default", messages=[*history[:2], *ASKED], temperature=0, max_tokens=8)
    second = api.chat.completions.create(model="default", messages=history, temperature=0, max_tokens=8)
    for reply in (fresh, second):
        assert first.usage is not None
        assert reply.usage is not None
        assert reply.usage.prompt_tokens_details is not None
        cached = reply.usage.prompt_tokens_details.cached_tokens or 0
        assert first.usage.prompt_tokens - 8 <= cached < reply.usage.prompt_tokens


def test_rows_are_forgotten_with_the_answer_that_left_them(api: openai.OpenAI, world: Any) -> None:
    store = world.place.runtime.store
    ids = []
    for question in ("What is forgotten?", "What is kept?"):
        asked: list[Any] = [{"role": "user", "content": question}]
        reply = api.chat.completions.create(model="default", messages=asked, max_tokens=4)
        ids.append(reply.choices[0].model_extra["answer_id"])  # type: ignore[index]
    forgotten, kept = (("default", f"answer:{answer_id}") for answer_id in ids)
    assert {forgotten, kept} <= set(store.owners())
    world.place.client.delete(keys.answer("default", ids[0]))
    deadline = time.monotonic() + 30
    while forgotten in store.owners() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert forgotten not in store.owners()
    assert kept in store.owners()


def test_chat_openai_of_langchain(api_url: str) -> None:
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    class Jump(BaseModel):
        high: bool

    model = ChatOpenAI(model="rag:animals", base_url=f"{api_url}/v1", api_key="none", seed=4, max_tokens=40)  # type: ignore[arg-type, call-arg]
    reply = model.invoke("What does the fox jump over?")
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] > 0
    assert "".join(str(chunk.content) for chunk in model.stream("What does the fox jump over?")) == reply.content
    structured = model.with_structured_output(Jump, method="json_schema")
    assert isinstance(structured.invoke("Is it high?"), Jump)
