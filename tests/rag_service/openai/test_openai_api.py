"""The official `openai` client against the API, with the scripted worker behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.support.chat_ids import chat_ids
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys
from workers.sessions.streams import AnswerStream

MODEL = "smollm2-135m"
JSON = {"Content-Type": "application/json"}
PICTURE = {"type": "image_url", "image_url": {"url": "x"}}
ASKED: list[Any] = [{"role": "user", "content": "What does the fox jump over?"}]


@pytest.fixture
def api(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="sk-none", max_retries=0) as client:
        yield client


def test_a_chat_answers_without_retrieval(api: openai.OpenAI, world: Any) -> None:
    reply = api.chat.completions.create(model=MODEL, messages=ASKED)
    assert reply.object == "chat.completion"
    assert reply.id.startswith("chatcmpl-")
    assert reply.model == MODEL
    (choice,) = reply.choices
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None)
    assert choice.message.role == "assistant"
    assert choice.message.content == world.stage.text
    assert choice.message.annotations == []
    assert not hasattr(choice.message, "citations")
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(world.stage.prompts[0])
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens_details is not None
    assert reply.usage.prompt_tokens_details.cached_tokens == 0


def test_history_is_the_templates_with_every_role(api: openai.OpenAI, world: Any) -> None:
    history: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "jumps?"}]},
        {"role": "assistant", "content": "The fox <|im_end|>."},
        {"role": "user", "content": "Over what?", "name": "ann"},
    ]
    api.chat.completions.create(model="default", messages=history)
    expected = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who jumps?"},
        {"role": "assistant", "content": "The fox <|im_end|>."},
        {"role": "user", "content": "Over what?"},
    ]
    assert world.stage.prompts == [chat_ids(world.tokens, expected)]


def test_no_session_is_kept(api: openai.OpenAI, world: Any) -> None:
    before = world.place.client.zcard(keys.sessions("default"))
    reply = api.chat.completions.create(model=MODEL, messages=ASKED)
    answer_id = reply.choices[0].model_extra["answer_id"]  # type: ignore[index]
    assert world.place.client.zcard(keys.sessions("default")) == before
    assert not world.place.client.exists(keys.session("default", ""), keys.session_turns("default", ""))
    edit = httpx.post(f"{api.base_url!s}answers/{answer_id}/edits", json={"instruction": "Shorter."})
    assert (edit.status_code, edit.json()["code"]) == (409, "not_editable")


def test_a_collection_grounds_the_answer(api: openai.OpenAI, world: Any, api_url: str) -> None:
    history: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
        *ASKED,
    ]
    reply = api.chat.completions.create(model="rag:animals", messages=history)
    message = reply.choices[0].message
    assert message.content == world.stage.text
    extra = message.model_extra
    assert extra is not None
    (citation,) = [one for one in extra["citations"] if one["kind"] == "copied"]
    assert extra["grounded"] is True
    assert extra["passages"][0]["document_id"] == "foxes"
    prompt = world.tokens.decode(world.stage.prompts[0])
    assert (
        prompt.index("Be brief.") < prompt.index("Hello") < prompt.index("quick brown fox") < prompt.index("What does")
    )
    assert message.annotations is not None
    link = message.annotations[0].url_citation
    assert message.content[link.start_index : link.end_index] == world.stage.text
    assert link.title == "Foxes"
    url, _, place = link.url.partition("#char=")
    start, end = map(int, place.split(","))
    assert (start, end) == (citation["source_start"], citation["source_end"])
    assert url.startswith(api_url)
    assert httpx.get(url).json()["text"][start:end] == world.stage.text
    again = api.chat.completions.create(model="rag:animals", messages=[*history, message, *ASKED])  # type: ignore[list-item]
    assert again.choices[0].message.content == world.stage.text


@pytest.mark.parametrize("model", [MODEL, "rag:animals"])
def test_a_stream_says_the_same(api: openai.OpenAI, world: Any, model: str) -> None:
    whole = api.chat.completions.create(model=model, messages=ASKED, seed=1)
    chunks = list(
        api.chat.completions.create(
            model=model, messages=ASKED, seed=1, stream=True, stream_options={"include_usage": True}
        )
    )
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert len([text for text in texts if text]) > 3
    assert "".join(text or "" for text in texts) == world.stage.text
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    last = chunks[-2].choices[0]
    assert last.finish_reason == "stop"
    extra = last.delta.model_extra or {}
    message = whole.choices[0].message
    assert extra.get("citations") == (message.model_extra or {}).get("citations")
    if model == "rag:animals":
        assert extra["annotations"] == [one.model_dump() for one in message.annotations or ()]
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-2])


def test_a_stream_ends_with_done_and_has_no_usage_unless_asked(api: openai.OpenAI) -> None:
    body = {"model": MODEL, "messages": ASKED, "stream": True}
    response = httpx.post(f"{api.base_url}chat/completions", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert not any("usage" in chunk for chunk in chunks)


def test_a_client_that_goes_away_from_a_stream_cancels_its_answer(api: openai.OpenAI, world: Any) -> None:
    world.stage.hold_at = 4
    stream = api.chat.completions.create(model=MODEL, messages=ASKED, stream=True)
    next(iter(stream))
    assert world.stage.waiting.wait(30)
    stream.close()
    world.wait_for_cancel()
    world.stage.open.set()


def test_stop_length_and_seed(api: openai.OpenAI, world: Any) -> None:
    reply = api.chat.completions.create(model=MODEL, messages=ASKED, stop=[" over"], seed=-5)
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("The quick brown fox jumps", "stop")
    reply = api.chat.completions.create(model=MODEL, messages=ASKED, max_completion_tokens=3, max_tokens=9)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 3


@pytest.mark.decoder_only("a model server's token ids are not known")
def test_sampling_reaches_the_job(api: openai.OpenAI, world: Any) -> None:
    reply = api.chat.completions.create(
        model=MODEL,
        messages=ASKED,
        seed=7,
        top_p=0,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        logit_bias={"5": 10},
        prediction={"type": "content", "content": world.stage.text},
        user="ann",
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
        parallel_tool_calls=False,
        extra_body={"top_k": 40, "speculation": "off"},
    )
    assert reply.usage is not None
    assert reply.usage.completion_tokens_details is not None
    assert reply.usage.completion_tokens_details.accepted_prediction_tokens == 0
    answer_id = reply.choices[0].model_extra["answer_id"]  # type: ignore[index]
    record = AnswerStream(world.place.client, "default", answer_id).record()
    assert record is not None
    job = record["job"]
    assert job.prediction == world.stage.text
    assert job.speculation.drafter == "off"
    used = job.sampling
    assert (used.seed, used.temperature, used.top_k, used.presence_penalty) == (7, 1.0, 40, 0.5)
    assert (used.frequency_penalty, used.logit_bias, used.top_p) == (-0.5, {5: 10.0}, 1e-9)


@pytest.mark.decoder_only("log-probabilities are of the model's own tokens")
def test_every_choice_is_an_answer_of_its_own(api: openai.OpenAI, world: Any) -> None:
    """The scripted engine leaves out as many tokens as a choice's index says."""
    ids = world.tokens.encode_content(world.stage.text).ids
    expected = [world.tokens.decode(ids[index:]) for index in range(3)]
    reply = api.chat.completions.create(model=MODEL, messages=ASKED, n=3, seed=1)
    assert [choice.message.content for choice in reply.choices] == expected
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert [choice.seed for choice in reply.choices] == [1, 1, 1]  # type: ignore[attr-defined]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(world.stage.prompts[0])
    assert reply.usage.completion_tokens == sum(range(len(ids) - 1, len(ids) + 2))
    texts = ["", "", ""]
    ended = []
    for chunk in api.chat.completions.create(model=MODEL, messages=ASKED, n=3, seed=1, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ended += [choice.index] if choice.finish_reason else []
    assert texts == expected
    assert sorted(ended) == [0, 1, 2]


@pytest.mark.decoder_only("log-probabilities are of the model's own tokens")
def test_log_probabilities_of_chats(api: openai.OpenAI, world: Any) -> None:
    world.stage.text = "naïve 東京 😀 jumps over"
    asked: dict[str, Any] = {"model": MODEL, "messages": ASKED, "logprobs": True, "top_logprobs": 2}
    whole = api.chat.completions.create(**asked)
    assert whole.choices[0].logprobs is not None
    content = whole.choices[0].logprobs.content
    assert content is not None
    assert b"".join(bytes(entry.bytes or ()) for entry in content).decode() == world.stage.text
    assert {entry.logprob for entry in content} == {-0.5}
    assert [one.logprob for one in content[0].top_logprobs] == [-0.5, -1.5]
    assert content[0].top_logprobs[0].token == content[0].token
    streamed = []
    text = ""
    for chunk in api.chat.completions.create(**asked, stream=True):
        logprobs = chunk.choices[0].logprobs
        streamed += (logprobs.content or []) if logprobs else []
        text += chunk.choices[0].delta.content or ""
        assert b"".join(bytes(entry.bytes or ()) for entry in streamed).decode("utf-8", "ignore").startswith(text)
    assert streamed == content
    cut = api.chat.completions.create(**asked, stop=" jumps")
    assert cut.choices[0].logprobs is not None
    pieces = [bytes(entry.bytes or ()) for entry in cut.choices[0].logprobs.content or ()]
    assert b"".join(pieces).decode() == "naïve 東京 😀"


@pytest.mark.decoder_only("a model server for chats continues no text")
def test_completions_continue_a_prompt_as_it_is(api: openai.OpenAI, world: Any) -> None:
    reply = api.completions.create(model=MODEL, prompt="The quick <|im_end|>", logprobs=1, max_tokens=4)
    assert reply.object == "text_completion"
    (prompt,) = world.stage.prompts
    assert prompt == world.tokens.encode_content("The quick <|im_end|>").ids
    choice = reply.choices[0]
    assert choice.finish_reason == "length"
    assert choice.logprobs is not None
    assert choice.logprobs.tokens is not None
    assert "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.token_logprobs == [-0.5] * 4
    assert choice.logprobs.text_offset is not None
    assert choice.logprobs.text_offset[0] == 0
    chunks = list(api.completions.create(model=MODEL, prompt="The quick", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == world.stage.text
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.decoder_only("a model server for chats continues no text")
def test_completions_of_several_prompts(api: openai.OpenAI, world: Any) -> None:
    reply = api.completions.create(model=MODEL, prompt=["One", "Two three"], n=2)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert reply.usage is not None
    tokens = [len(world.tokens.encode_content(text).ids) for text in ("One", "Two three")]
    assert reply.usage.prompt_tokens == sum(tokens)
    ids = api.completions.create(model=MODEL, prompt=[5, 6, 7])
    assert ids.usage is not None
    assert world.stage.prompts[-1] == [5, 6, 7]
    grounded = api.completions.create(model="rag:animals", prompt="What does the fox jump over?")
    assert grounded.choices[0].model_extra["citations"]  # type: ignore[index]


def test_embeddings(api: openai.OpenAI) -> None:
    texts = ["The fox", "A bridge"]
    expected = HashEmbedder().embed_documents(texts)
    for form in ("float", "base64"):
        reply = api.embeddings.create(model="all-minilm-l6-v2", input=texts, encoding_format=form)  # type: ignore[arg-type]
        assert [one.index for one in reply.data] == [0, 1]
        if form == "float":
            assert [one.embedding for one in reply.data] == [pytest.approx(row.tolist()) for row in expected]
    default = api.embeddings.create(model="all-minilm-l6-v2", input="The fox")
    assert default.data[0].embedding == pytest.approx(expected[0].tolist())
    assert default.usage.prompt_tokens > 0
    for bad in ({"model": MODEL, "input": "x"}, {"model": "all-minilm-l6-v2", "input": [1, 2]}):
        with pytest.raises(openai.APIStatusError):
            api.embeddings.create(**bad)  # type: ignore[arg-type]


NO_TOOLS = "a model server has its own template for tools"
NO_DRAFTERS = "a model server drafts in its own way"
REFUSED: list[Any] = [
    ({"model": "gpt-4o"}, "model", "model_not_found"),
    ({"model": "rag:nothing"}, "model", "model_not_found"),
    ({"model": "rag:no/such name"}, "model", "model_not_found"),
    ({"messages": []}, "messages", "invalid_request"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "invalid_request"),
    ({"messages": [{"role": "user", "content": [PICTURE]}]}, None, "invalid_request"),
    ({"temperature": 9}, "temperature", "invalid_request"),
    pytest.param(
        {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "unsupported_tools",
        marks=pytest.mark.decoder_only(NO_TOOLS),
    ),
    ({"modalities": ["text", "audio"]}, "modalities", "invalid_request"),
    ({"extra_body": {"temprature": 1}}, None, "invalid_request"),
    ({"extra_body": {"top_logprobs": 3}}, None, "invalid_request"),
    ({"logit_bias": {"99999": 1}}, None, "invalid_request"),
    ({"max_tokens": 5000}, None, "context_length_exceeded"),
    pytest.param(
        {"extra_body": {"speculation": "small_model"}}, "speculation", "invalid_request",
        marks=pytest.mark.decoder_only(NO_DRAFTERS),
    ),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "thing"}}}},
     "response_format", "invalid_schema"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "param", "code"), REFUSED)
def test_refusals_are_openai_errors(api: openai.OpenAI, changes: dict[str, Any], param: str | None, code: str) -> None:
    with pytest.raises(openai.APIStatusError) as error:
        api.chat.completions.create(**{"model": MODEL, "messages": ASKED, **changes})
    expected = openai.NotFoundError if code == "model_not_found" else openai.BadRequestError
    assert type(error.value) is expected
    assert error.value.code == code
    assert error.value.type == "invalid_request_error"
    if param is not None:
        assert error.value.param == param
    assert error.value.body["message"].endswith((".", "?"))  # type: ignore[index]


def test_a_misspelt_collection_is_corrected(api: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=r"no model 'rag:animal' \(did you mean 'rag:animals'\?\): use"):
        api.chat.completions.create(model="rag:animal", messages=ASKED)
    with pytest.raises(openai.NotFoundError, match="no model 'rag:zebra': use"):
        api.chat.completions.create(model="rag:zebra", messages=ASKED)


def test_errors_before_and_beside_the_routes(api: openai.OpenAI) -> None:
    for response, status, code in (
        (httpx.get(f"{api.base_url}chat/completions"), 405, "method_not_allowed"),
        (httpx.post(f"{api.base_url}chat/nothing", json={}), 404, "not_found"),
        (httpx.post(f"{api.base_url}chat/completions", content=b"{", headers=JSON), 400, "invalid_json"),
        (
            httpx.post(f"{api.base_url}completions", json={}, headers={"Authorization": "Bearer rag_x"}),
            401,
            "invalid_api_key",
        ),
    ):
        assert response.status_code == status
        assert response.json()["error"]["code"] == code
    with pytest.raises(openai.AuthenticationError):
        api.with_options(api_key="rag_0123456789").models.list()
    elsewhere = httpx.post(f"{api.base_url}query", json={})
    assert elsewhere.json()["code"] == "invalid_request"


@pytest.mark.decoder_only("its engine is made to fail; failing model servers have tests of their own")
def test_an_answer_that_fails_is_an_error(api: openai.OpenAI, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sequence: Any) -> None:
        raise ValueError("the engine does not want to")

    monkeypatch.setattr(world.place.runtime._engine, "_before_step", fail)
    with pytest.raises(openai.BadRequestError, match="does not want to"):
        api.chat.completions.create(model=MODEL, messages=ASKED)
    with pytest.raises(openai.APIError, match="does not want to"):
        list(api.chat.completions.create(model=MODEL, messages=ASKED, stream=True))


async def test_the_async_client(api_url: str, world: Any) -> None:
    async with openai.AsyncOpenAI(base_url=f"{api_url}/v1", api_key="x") as client:
        reply = await client.chat.completions.create(model=MODEL, messages=ASKED)
        assert reply.choices[0].message.content == world.stage.text
        text = ""
        async for chunk in await client.chat.completions.create(model=MODEL, messages=ASKED, stream=True):
            text += chunk.choices[0].delta.content or ""
        assert text == world.stage.text
