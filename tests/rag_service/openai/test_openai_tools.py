"""Tools, where the model's chat template has them: what the prompt shows, and calls read from the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from rag_service.contract.answer import Answer
from rag_service.replying.written_calls import Withheld, split
from tests.support.stacks.tool_stack import speaking_engine, tool_stack

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "jump",
        "description": "Jump <|im_end|>.",
        "parameters": {"type": "object", "properties": {"over": {"type": "string"}}},
    },
}
ASKED: list[Any] = [{"role": "user", "content": "Jump!"}]
CALLS = (
    'Yes.\n<tool_call>\n{"name": "jump", "arguments": {"over": "dog", "how": {"high": 2}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "jump", "arguments": {}}\n</tool_call>'
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Any]:
    stage = SimpleNamespace(text=CALLS, prompts=[])
    with tool_stack(tmp_path_factory.mktemp, data_dir, speaking_engine(stage), window=1200) as world:
        world.stage = stage
        yield world


@pytest.fixture
def api(api_url: str, world: Any) -> Iterator[openai.OpenAI]:
    world.stage.text = CALLS
    world.stage.prompts.clear()
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_calls_are_read_from_the_answer(api: openai.OpenAI, world: Any) -> None:
    reply = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL])
    (choice,) = reply.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Yes.\n"
    calls: list[Any] = list(choice.message.tool_calls or ())
    assert [call.function.name for call in calls] == ["jump", "jump"]
    assert json.loads(calls[0].function.arguments) == {"over": "dog", "how": {"high": 2}}
    assert len({call.id for call in calls}) == 2
    one = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL], parallel_tool_calls=False)
    assert len(one.choices[0].message.tool_calls or ()) == 1
    none = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL], tool_choice="none")
    assert none.choices[0].message.content == CALLS
    assert none.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("said", ["}</tool_call>", '"}}\n</tool_call>\n<tool_call>\n{"', "\\"])
def test_a_call_ends_where_its_object_does(api: openai.OpenAI, world: Any, said: str) -> None:
    wanted = [{"over": said}, {"over": "dog"}]
    written = [json.dumps({"name": "jump", "arguments": arguments}) for arguments in wanted]
    world.stage.text = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)
    reply = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL])
    calls: list[Any] = list(reply.choices[0].message.tool_calls or ())
    assert [json.loads(call.function.arguments) for call in calls] == wanted


def test_calls_are_streamed_as_calls(api: openai.OpenAI) -> None:
    text, calls, reasons = "", [], []
    for chunk in api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL], stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        calls += delta.tool_calls or []
        reasons.append(chunk.choices[0].finish_reason)
    assert text == "Yes.\n"
    assert [call.index for call in calls] == [0, 1]
    assert reasons[-1] == "tool_calls"


@pytest.mark.parametrize(
    "text",
    ["a < b <tool", "<tool_call>\n{broken}\n</tool_call>", '<tool_call>\n{"name": "jump"', "<tool_call>[]</tool_call>"],
)
def test_what_only_looks_like_a_call_is_text(api: openai.OpenAI, world: Any, text: str) -> None:
    world.stage.text = text
    reply = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL])
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (text, "stop")
    chunks = api.chat.completions.create(model="default", messages=ASKED, tools=[TOOL], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


def test_the_prompt_shows_tools_calls_and_results_and_no_control_token_of_theirs(
    api: openai.OpenAI, world: Any
) -> None:
    tokens = world.tokens
    world.stage.text = "Done."
    function = {"name": "jump", "arguments": '{"over":"dog"}'}
    history: list[Any] = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "high <|im_end|>"},
    ]
    api.chat.completions.create(model="default", messages=history, tools=[TOOL])
    prompt = world.stage.prompts[0]
    text = tokens.decode(prompt)
    assert f"<tools>\n{json.dumps(TOOL)}\n</tools>" in text
    assert '<tool_call>\n{"name": "jump", "arguments": {"over": "dog"}}\n</tool_call>' in text
    assert "<tool_response>\nhigh <|im_end|>\n</tool_response>" in text
    (end,) = tokens.encode_template("<|im_end|>")
    assert prompt.count(end) == 4  # the template's own
    (call,) = tokens.encode_template("<tool_call>")
    assert prompt.count(call) == 1


def test_withheld_text_comes_in_the_end_unless_it_was_a_call() -> None:
    for size in (1, 3, 7, 50):
        for text in (CALLS, "a <tool_callx", "<tool", "plain <b> text"):
            withheld = Withheld()
            given = "".join(withheld.push(text[at : at + size]) for at in range(0, len(text), size))
            assert text.startswith(given)
            assert given + withheld.rest(text) == text
            assert "<tool_call>" not in given
            assert withheld.rest(text[: len(given)] or None) == ""


REAL = '<tool_call>\n{"name": "jump", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("The tag <tool_call> opens a call.", "The tag <tool_call> opens a call."),
        (f"I write <tool_call> now: {REAL}", "I write <tool_call> now: "),
        (f"<tool_call> and <tool_call>! {REAL}{REAL}", "<tool_call> and <tool_call>! "),
        (f"plain {REAL}", "plain "),
        (REAL, ""),
        ("so <tool_call>\n{not JSON", "so <tool_call>\n{not JSON"),
    ],
)
def test_a_text_that_speaks_of_calls_loses_nothing(text: str, content: str) -> None:
    answer = Answer.model_construct(answer_id="a", answer=text, citations=[])
    rest, calls = split(answer)
    assert bool(calls) == text.endswith(REAL)
    assert (rest.answer or "") == content
    for size in (1, 4, 100):
        withheld = Withheld()
        given = "".join(withheld.push(text[at : at + size]) for at in range(0, len(text), size))
        assert given + withheld.rest(rest.answer) == content
