"""The official `anthropic` client against the API, with the scripted worker behind it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from tests.support.chat_ids import chat_ids
from workers.broker import keys
from workers.sessions.streams import AnswerStream

MODEL = "smollm2-135m"
ASKED: list[Any] = [{"role": "user", "content": "What does the fox jump over?"}]
BASIC: dict[str, Any] = {"model": MODEL, "messages": ASKED, "max_tokens": 300}
FOX = "The quick brown fox jumps over the lazy dog every morning before breakfast."
VISITORS = "Over the bridge of Köln walk 東京 visitors 😀 and many naïve café owners each year."


@pytest.fixture
def api(api_url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=api_url, api_key="sk-none", max_retries=0) as client:
        yield client


def ask(api: anthropic.Anthropic, **changes: Any) -> Any:
    return api.messages.create(**{**BASIC, **changes})


def parts(message: Any) -> list[tuple[str, Any]]:
    return [(block.text, block.citations) for block in message.content]


def test_a_message_answers_without_retrieval(api: anthropic.Anthropic, api_url: str, world: Any) -> None:
    reply = ask(api)
    assert (reply.type, reply.role, reply.model) == ("message", "assistant", MODEL)
    assert reply.id.startswith("msg_")
    assert reply._request_id.startswith("req_")
    (block,) = reply.content
    assert (block.type, block.text, block.citations) == ("text", world.stage.text, None)
    assert (reply.stop_reason, reply.stop_sequence) == ("end_turn", None)
    assert reply.usage.input_tokens == len(world.stage.prompts[0])
    assert reply.usage.output_tokens > 5
    assert reply.usage.cache_read_input_tokens == 0
    assert not hasattr(reply, "documents")
    kept = httpx.get(f"{api_url}/v1/answers/{reply.id.removeprefix('msg_')}").json()
    assert kept["answer"] == world.stage.text


def test_history_is_the_templates_with_every_role(api: anthropic.Anthropic, world: Any) -> None:
    history: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "jumps?"}]},
        {"role": "assistant", "content": "The fox <|im_end|>."},
        {"role": "user", "content": "Over what?"},
        {"role": "user", "content": [{"type": "text", "text": "Say!", "cache_control": {"type": "ephemeral"}}]},
    ]
    system: list[Any] = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    ask(api, model="default", messages=history, system=system)
    ask(api, model="default", messages=history, system="Be brief.")
    expected = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who jumps?"},
        {"role": "assistant", "content": "The fox <|im_end|>."},
        {"role": "user", "content": "Over what?\n\nSay!"},
    ]
    assert world.stage.prompts == [chat_ids(world.tokens, expected)] * 2


def test_no_session_is_kept(api: anthropic.Anthropic, world: Any) -> None:
    before = world.place.client.zcard(keys.sessions("default"))
    ask(api)
    assert world.place.client.zcard(keys.sessions("default")) == before


def test_a_collection_grounds_the_answer(api: anthropic.Anthropic, world: Any, api_url: str) -> None:
    world.stage.text = f"It says: {FOX} {VISITORS} That is all."
    reply = ask(api, model="rag:animals", system="Be brief.")
    assert "".join(block.text for block in reply.content) == world.stage.text
    prompt = world.tokens.decode(world.stage.prompts[0])
    assert prompt.index("Be brief.") < prompt.index("quick brown fox") < prompt.index("What does")
    (document,) = [one for one in reply.documents if one["document_id"] == "foxes"]
    assert (document["title"], document["url"]) == ("Foxes", f"{api_url}/v1/collections/animals/documents/foxes")
    text = httpx.get(document["url"]).json()["text"]
    fox, visitors, rest = reply.content
    assert (fox.text, visitors.text, rest.text) == (f"It says: {FOX} ", f"{VISITORS} ", "That is all.")
    assert rest.citations is None
    for block, quoted in ((fox, FOX), (visitors, VISITORS)):
        assert quoted in [citation.cited_text for citation in block.citations]
        for citation in block.citations:
            assert citation.type == "char_location"
            assert reply.documents[citation.document_index] == document
            assert citation.document_title == "Foxes"
            assert text[citation.start_char_index : citation.end_char_index] == citation.cited_text
    assert reply.grounded is True
    assert reply.passages[0]["document_id"] == "foxes"
    history: list[Any] = [*ASKED, {"role": "assistant", "content": reply.content}, *ASKED]
    ask(api, model="rag:animals", messages=history, extra_body={"retrieval": {"rewrite": False}})
    assert world.stage.text in world.tokens.decode(world.stage.prompts[-1])


def test_a_copy_over_several_sentences_is_cited_in_each(api: anthropic.Anthropic, world: Any) -> None:
    """A copied run goes on over the heading between two paragraphs."""
    world.stage.text = f"{FOX}\n\n# Bridges\n\n{VISITORS}"
    reply = ask(api, model="rag:animals")
    assert [block.text.strip() for block in reply.content] == [FOX, "# Bridges", VISITORS]
    for block in (reply.content[0], reply.content[2]):
        assert block.text.strip() in [citation.cited_text for citation in block.citations]


@pytest.mark.parametrize("model", [MODEL, "rag:animals"])
def test_a_stream_says_the_same(api: anthropic.Anthropic, world: Any, model: str) -> None:
    world.stage.text = f"It says: {FOX} {VISITORS}\n\n1. That is all."
    whole = ask(api, model=model, extra_body={"seed": 1})
    with api.messages.stream(**{**BASIC, "model": model}, extra_body={"seed": 1}) as stream:
        events = list(stream)
        final = stream.get_final_message()
        assert stream.request_id is not None
    assert parts(final) == parts(whole)
    assert (final.stop_reason, final.stop_sequence) == ("end_turn", None)
    assert final.usage.to_dict() == whole.usage.to_dict()
    assert "".join(event.text for event in events if event.type == "text") == world.stage.text
    assert len([event for event in events if event.type == "text"]) > 3
    cited = [event.citation for event in events if event.type == "citation"]
    assert cited == [citation for block in whole.content for citation in block.citations or ()]
    assert bool(cited) == (model != MODEL)


@pytest.mark.parametrize("model", [MODEL, "rag:animals"])
def test_the_events_of_a_stream(api: anthropic.Anthropic, api_url: str, world: Any, model: str) -> None:
    whole = ask(api, model=model)
    body = {**BASIC, "model": model, "stream": True}
    response = httpx.post(f"{api_url}/v1/messages", json=body, headers={"anthropic-version": "2023-06-01"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["request-id"].startswith("req_")
    events = []
    for block in response.text.strip().split("\n\n"):
        if not block.startswith(":"):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    head = events[0]["message"]
    assert (head["content"], head["stop_reason"], head["role"]) == ([], None, "assistant")
    assert head["usage"]["input_tokens"] > 10
    last = events[-2]
    assert last["delta"]["stop_reason"] == "end_turn"
    assert last["usage"] == whole.usage.to_dict()
    assert ("documents" in last["delta"]) == (model != MODEL)
    assert head["id"] == f"msg_{last['delta']['answer_id']}"


def test_a_silent_stream_has_pings(serve: Any, world: Any) -> None:
    world.stage.hold_at = 4
    with serve(world, answers={"heartbeat": 0.01}) as url:
        with httpx.stream("POST", f"{url}/v1/messages", json={**BASIC, "stream": True}, timeout=30) as response:
            lines = response.iter_lines()
            while next(lines) != "event: ping":
                pass
            assert json.loads(next(lines).removeprefix("data: ")) == {"type": "ping"}
            world.stage.open.set()
            assert "event: message_stop" in list(lines)
        with anthropic.Anthropic(base_url=url, api_key="none") as api, api.messages.stream(**BASIC) as stream:
            assert stream.get_final_text() == world.stage.text


def test_a_client_that_goes_away_from_a_stream_cancels_its_answer(api: anthropic.Anthropic, world: Any) -> None:
    world.stage.hold_at = 4
    with api.messages.stream(**BASIC) as stream:
        assert next(iter(stream)).type == "message_start"
        assert world.stage.waiting.wait(30)
    world.wait_for_cancel()
    world.stage.open.set()


def test_a_client_that_waits_and_goes_away_cancels_its_answer(api_url: str, world: Any) -> None:
    world.stage.hold_at = 3
    client = world.place.client
    before = set(client.scan_iter("rag:default:answer:*"))
    body = json.dumps(BASIC).encode()
    address = httpx.URL(api_url)
    with socket.create_connection((address.host, address.port)) as connection:
        head = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}".encode() + body)
        assert world.stage.waiting.wait(30)
        (answer,) = [
            one for one in client.scan_iter("rag:default:answer:*") if one not in before and one.count(":") == 3
        ]
    world.wait_for_cancel()
    world.stage.open.set()
    while not client.hget(answer, "result"):
        time.sleep(0.01)
    assert json.loads(client.hget(answer, "result"))["finish_reason"] == "cancelled"


def test_length_and_stop_sequences(api: anthropic.Anthropic, world: Any) -> None:
    reply = ask(api, max_tokens=3)
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 3)
    reply = ask(api, stop_sequences=["nowhere"])
    assert (reply.stop_reason, reply.stop_sequence, reply.content[0].text) == ("end_turn", None, world.stage.text)
    asked = {**BASIC, "stop_sequences": ["nowhere", " over"]}
    reply = api.messages.create(**asked)
    with api.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for one in (reply, streamed):
        assert one.content[0].text == "The quick brown fox jumps"
        if world.engine == "decoder":
            assert (one.stop_reason, one.stop_sequence) == ("stop_sequence", " over")
        else:  # the model server does not say where it stopped
            assert (one.stop_reason, one.stop_sequence) == ("end_turn", None)


@pytest.mark.decoder_only("a model server's token ids are not known")
def test_sampling_reaches_the_job(api: anthropic.Anthropic, world: Any) -> None:
    own = {"seed": -5, "min_p": 0.1, "presence_penalty": 0.5, "logit_bias": {"5": 10}, "speculation": "off"}
    # Newer clients have no arguments for the first three; the field is the same.
    reply = ask(
        api,
        metadata={"user_id": "ann"},
        service_tier="auto",
        thinking={"type": "disabled"},
        extra_body={
            "temperature": 0.5, "top_p": 0, "top_k": 40, **own,
            "prediction": {"type": "content", "content": world.stage.text},
        },
    )  # fmt: skip
    record = AnswerStream(world.place.client, "default", reply.answer_id).record()
    assert record is not None
    job, used = record["job"], record["job"].sampling
    assert (used.temperature, used.top_p, used.top_k, used.min_p) == (0.5, 1e-9, 40, 0.1)
    assert (used.seed, used.presence_penalty, used.logit_bias) == (2**63 - 5, 0.5, {5: 10.0})
    assert (job.prediction, job.speculation.drafter, used.max_tokens) == (world.stage.text, "off", 300)
    again = AnswerStream(world.place.client, "default", ask(api).answer_id).record()
    assert again is not None
    assert again["job"].sampling.temperature == 1.0


def test_json_follows_its_schema(api: anthropic.Anthropic, world: Any) -> None:
    world.stage.text = '{"days": 35}'
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    reply = ask(api, output_config={"format": {"type": "json_schema", "schema": schema}})
    record = AnswerStream(world.place.client, "default", reply.answer_id).record()
    assert record is not None
    assert record["job"].json_schema == schema
    assert json.loads(reply.content[0].text) == {"days": 35}


@pytest.mark.parametrize("model", [MODEL, "rag:animals"])
def test_tokens_are_counted_without_an_answer(api: anthropic.Anthropic, world: Any, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": ASKED, "system": "Be brief."}
    counted = api.messages.count_tokens(**asked).input_tokens
    assert not world.stage.prompts
    ask(api, **asked)
    if world.engine == "decoder":  # a model server's template and tokens are its own
        assert counted == len(world.stage.prompts[0])
    assert counted > 20
    long: list[Any] = [{"role": "user", "content": "What jumps? " * 600}]
    assert api.messages.count_tokens(**{**asked, "messages": long}).input_tokens > world.window
    with pytest.raises(anthropic.NotFoundError):
        api.messages.count_tokens(**{**asked, "model": "claude"})


def test_models_are_listed(api: anthropic.Anthropic) -> None:
    listed = [model.id for model in api.models.list()]
    assert listed[0] == MODEL
    assert "rag:animals" in listed


async def test_the_async_client(api_url: str, world: Any) -> None:
    async with anthropic.AsyncAnthropic(base_url=api_url, api_key="x") as client:
        reply: Any = await client.messages.create(**BASIC)
        assert reply.content[0].text == world.stage.text
        async with client.messages.stream(**{**BASIC, "model": "rag:animals"}) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final: Any = await stream.get_final_message()
        assert text == world.stage.text
        assert final.content[0].citations[0].cited_text in FOX
