"""An answer that repeats itself ends, and every reader of answers says so in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import openai
import pytest
from langchain_core.exceptions import OutputParserException

from rag_service.langchain import ChatRagService
from rag_service.prompting.generation_options import question_again
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import Templates
from tests.support.command_line import rag
from workers.broker.messages import RepetitionLimit

LOOP = "The quick brown fox jumps over the lazy dog. "
ASKED: dict[str, Any] = {"question": "What jumps?", "retrieval": {"mode": "none"}, "max_tokens": 600}
FROM_PASSAGES: dict[str, Any] = {"question": "What jumps?", "collection": "animals", "max_tokens": 600}


@pytest.fixture
def stuck(world: Any) -> str:
    """The text of an answer that never ends by itself."""
    world.stage.text = LOOP * 60
    text: str = world.stage.text
    return text


async def posted(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_an_answer_that_repeats_itself_ends(client: httpx.AsyncClient, stuck: str) -> None:
    answers = [await posted(client, "/v1/query", {**ASKED, "speculation": name}) for name in ("auto", "off")]
    for answer in answers:
        assert (answer["status"], answer["finish_reason"]) == ("succeeded", "repetition")
        assert answer["usage"]["completion_tokens"] == 128
        assert stuck.startswith(answer["answer"])
        assert answer["answer"].count(LOOP) >= 4
        record = await client.pipeline.answers.record(answer["answer_id"])  # type: ignore[attr-defined]
        assert record["job"].sampling.repetition == RepetitionLimit(length=128, times=4)
    assert answers[0]["answer"] == answers[1]["answer"]


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_an_answer_from_passages_ends_at_the_second_time(client: httpx.AsyncClient, stuck: str) -> None:
    answers = [await posted(client, "/v1/query", {**FROM_PASSAGES, "speculation": name}) for name in ("auto", "off")]
    for answer in answers:
        assert answer["finish_reason"] == "repetition"
        assert answer["usage"]["completion_tokens"] == 28  # twice 14
        assert answer["answer"].count(LOOP) < 3
    assert answers[0]["answer"] == answers[1]["answer"]


async def test_an_answer_ends_where_it_asks_the_question_again(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "The fox jumps.\n\nQuestion:\nWhat jumps?\nThe dog jumps too."
    for name in ("auto", "off"):
        answer = await posted(client, "/v1/query", {**FROM_PASSAGES, "speculation": name, "stop": ["nowhere"] * 16})
        assert (answer["answer"], answer["finish_reason"]) == ("The fox jumps.\n\n", "stop")
    body = {"model": "rag:animals", "messages": [{"role": "user", "content": "What jumps?"}], "max_tokens": 600}
    response = await client.post("/v1/chat/completions", json=body)
    assert response.json()["choices"][0]["message"]["content"] == "The fox jumps.\n\n"
    plain = await posted(client, "/v1/query", ASKED)
    assert plain["answer"] == world.stage.text, "without passages the prompt has no such words"
    other = await posted(client, "/v1/query", {**FROM_PASSAGES, "question": "What jumps now?"})
    assert other["answer"] == world.stage.text, "another question may be asked"


def test_a_passage_that_asks_the_same_may_be_quoted() -> None:
    template = Templates().of("What jumps?")
    asked = partial(question_again, template, Retrieved(), "What jumps?")
    assert asked([{"text": "The fox jumps."}]) == ["Question:\nWhat jumps?"]
    assert asked([{"text": "The fox jumps."}, {"text": "Question:\nWhat jumps?\nThe fox."}]) == []
    assert asked([]) == []
    assert question_again(replace(template, question="{question}"), Retrieved(), "What jumps?", [{"text": "x"}]) == []


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_forced_json_from_passages_may_repeat_itself(client: httpx.AsyncClient, stuck: str) -> None:
    body = {"model": "rag:animals", "messages": [{"role": "user", "content": "What jumps?"}], "max_tokens": 600}
    for changes, length in (({}, 28), ({"response_format": {"type": "json_object"}}, 128)):
        response = await client.post("/v1/chat/completions", json={**body, **changes})
        assert response.json()["usage"]["completion_tokens"] == length


async def test_it_is_a_turn_and_can_be_edited(client: httpx.AsyncClient, stuck: str) -> None:
    first = await posted(client, "/v1/query", ASKED)
    edited = await posted(client, f"/v1/answers/{first['answer_id']}/edits", {"instruction": "On.", "max_tokens": 600})
    assert edited["finish_reason"] == "repetition"
    assert len(edited["answer"]) > len(first["answer"]), "what the prompt repeats may be said again"
    versions = (await client.get(f"/v1/answers/{first['answer_id']}/versions")).json()["versions"]
    assert [version["finish_reason"] for version in versions] == ["repetition", "repetition"]


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
@pytest.mark.parametrize(
    ("answers", "most"),
    [
        ({"repetition_length": 64}, 64),
        ({"repetition_length": 1, "repetition_times": 12}, None),
        ({"repetition_length": 0}, 600),
    ],
)
async def test_the_settings_say_when(
    world: Any, make_client: Any, stuck: str, answers: dict[str, int], most: int | None
) -> None:
    async with make_client(world.redis_url, world.data_dir, answers=answers) as client:
        answer = await posted(client, "/v1/query", ASKED)
    stretch = len(world.tokens.encode_content(LOOP * 2).ids) - len(world.tokens.encode_content(LOOP).ids)
    assert answer["usage"]["completion_tokens"] == (12 * stretch if most is None else most)
    assert answer["finish_reason"] == ("length" if most == 600 else "repetition")


@pytest.fixture
def api(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="sk-none", max_retries=0) as client:
        yield client


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
def test_openai_calls_it_length(api: openai.OpenAI, stuck: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "What jumps?"}]
    asked: dict[str, Any] = {"model": "default", "max_tokens": 600}
    whole = api.chat.completions.create(messages=messages, **asked).choices[0]
    *_, last = api.chat.completions.create(messages=messages, stream=True, **asked)
    text = api.completions.create(prompt="What jumps?", **asked).choices[0]
    assert {whole.finish_reason, last.choices[0].finish_reason, text.finish_reason} == {"length"}
    assert stuck.startswith(str(whole.message.content))


def test_langchain_names_it_and_parses_no_half_of_a_text(live_url: str, stuck: str, world: Any) -> None:
    chat = ChatRagService(base_url=live_url, max_tokens=600)
    assert chat.invoke("What jumps?").response_metadata["finish_reason"] == "repetition"
    world.stage.text = '{"names": [' + '"the quick brown fox", ' * 100
    schema = {"title": "Names", "description": "Names.", "type": "object", "properties": {"names": {"type": "array"}}}
    with pytest.raises(OutputParserException, match="repeated itself"):
        chat.with_structured_output(schema).invoke("What jumps?")


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
@pytest.mark.usefixtures("own_folder")
def test_the_commands_say_it_plainly(api_url: str, stuck: str) -> None:
    asked = ("-c", "animals", "--max-tokens", "600", "--url", api_url)
    said = "stopped at 28 tokens, because it repeated itself"
    assert said in rag("ask", "What jumps?", *asked).stdout
    assert said in rag("chat", *asked, said="What jumps?\n").stdout
    verified = rag("verify", "What jumps?", *asked, "--seed", "1")
    assert verified.exit_code == 0, verified.output
