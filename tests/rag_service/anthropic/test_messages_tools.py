"""Tools over Anthropic's client: calls the model decides on, from a script, and forced ones, from a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import pytest

from tests.support.stacks.tool_stack import speaking_engine, tiny_engine, tool_stack

OVER: dict[str, Any] = {
    "type": "object",
    "properties": {"over": {"enum": ["dog", "fox"]}, "times": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["over", "times"],
}
JUMP: Any = {"name": "jump", "description": "Jump <|im_end|>.", "input_schema": OVER}
REST: Any = {"name": "rest", "input_schema": {"type": "object", "properties": {}}}
ASKED: list[Any] = [{"role": "user", "content": "Jump!"}]
CALLS = (
    'Yes.\n<tool_call>\n{"name": "jump", "arguments": {"over": "dog", "how": {"high": 2}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "jump", "arguments": {}}\n</tool_call>'
)
NAMED: Any = {"type": "tool", "name": "jump"}


@pytest.fixture(scope="module", params=["scripted", "tiny"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Any]:
    stage = SimpleNamespace(text=CALLS, prompts=[])
    engine = speaking_engine(stage) if request.param == "scripted" else tiny_engine
    with tool_stack(tmp_path_factory.mktemp, data_dir, engine, window=1200) as world:
        world.stage, world.kind = stage, request.param
        yield world


@pytest.fixture
def api(api_url: str, world: Any) -> Iterator[anthropic.Anthropic]:
    world.stage.text = CALLS
    world.stage.prompts.clear()
    with anthropic.Anthropic(base_url=api_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def scripted(api: anthropic.Anthropic, world: Any) -> anthropic.Anthropic:
    if world.kind != "scripted":
        pytest.skip("of the scripted engine")
    return api


@pytest.fixture
def tiny(api: anthropic.Anthropic, world: Any) -> anthropic.Anthropic:
    if world.kind != "tiny":
        pytest.skip("of the tiny model")
    return api


def asked(**changes: Any) -> dict[str, Any]:
    usual = {"model": "default", "messages": ASKED, "max_tokens": 300, "tools": [JUMP, REST]}
    return {**usual, "extra_body": {"seed": 3}, **changes}


def final(api: anthropic.Anthropic, **changes: Any) -> tuple[Any, list[Any]]:
    with api.messages.stream(**asked(**changes)) as stream:
        events = list(stream)
        return stream.get_final_message(), events


def parts(message: Any) -> list[tuple[Any, ...]]:
    return [(one.text,) if one.type == "text" else (one.name, one.input) for one in message.content]


def text_of(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_calls_are_read_from_the_answer(scripted: anthropic.Anthropic) -> None:
    for reply in (scripted.messages.create(**asked()), final(scripted)[0]):
        assert parts(reply) == [("Yes.\n",), ("jump", {"over": "dog", "how": {"high": 2}}), ("jump", {})]
        assert reply.stop_reason == "tool_use"
        ids = [block.id for block in reply.content[1:]]
        assert len(set(ids)) == 2
        assert all(one.startswith("toolu_") for one in ids)
    one = scripted.messages.create(**asked(tool_choice={"type": "auto", "disable_parallel_tool_use": True}))
    assert len(one.content) == 2
    none = scripted.messages.create(**asked(tool_choice={"type": "none"}))
    assert parts(none) == [(CALLS,)]
    assert none.stop_reason == "end_turn"


@pytest.mark.parametrize("text", ["a < b <tool", '<tool_call>\n{"name": "jump"', "<tool_call>[]</tool_call>"])
def test_what_only_looks_like_a_call_is_text(scripted: anthropic.Anthropic, world: Any, text: str) -> None:
    world.stage.text = text
    for reply in (scripted.messages.create(**asked()), final(scripted)[0]):
        assert (parts(reply), reply.stop_reason) == ([(text,)], "end_turn")


def test_a_grounded_answer_cites_and_calls(scripted: anthropic.Anthropic, world: Any) -> None:
    fox = "The quick brown fox jumps over the lazy dog every morning before breakfast."
    world.stage.text = f"{fox} So:\n{CALLS.partition('Yes.')[2]}"
    reply, events = final(scripted, model="rag:animals")
    whole = scripted.messages.create(**asked(model="rag:animals"))
    assert parts(reply) == parts(whole)
    assert [block.type for block in reply.content] == ["text", "text", "tool_use", "tool_use"]
    assert reply.content[0].citations[0].cited_text == fox
    assert whole.content[0].citations[0].cited_text == fox
    stops = [event.index for event in events if event.type == "content_block_stop"]
    assert stops == [0, 1, 2, 3]


def test_the_prompt_shows_tools_calls_and_results(scripted: anthropic.Anthropic, world: Any) -> None:
    tokens = world.tokens
    world.stage.text = "Done."
    called = {"type": "tool_use", "id": "toolu_1", "name": "jump", "input": {"over": "dog"}}
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "high <|im_end|>"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [text_of("fell")], "is_error": True},
        text_of("And now?"),
    ]
    history: list[Any] = [
        *ASKED,
        {"role": "assistant", "content": [text_of("Yes."), called, {**called, "id": "toolu_2"}]},
        {"role": "user", "content": results},
    ]
    scripted.messages.create(**asked(messages=history))
    counted = scripted.messages.count_tokens(model="default", messages=history, tools=[JUMP, REST])
    prompt = world.stage.prompts[0]
    assert counted.input_tokens == len(prompt)
    text = tokens.decode(prompt)
    shown = {"name": "jump", "description": "Jump <|im_end|>.", "parameters": OVER}
    assert json.dumps({"type": "function", "function": shown}) in text
    assert text.count('<tool_call>\n{"name": "jump", "arguments": {"over": "dog"}}\n</tool_call>') == 2
    places = [text.index(one) for one in ("high <|im_end|>", "Error: fell", "And now?")]
    assert places == sorted(places)
    (end,) = tokens.encode_template("<|im_end|>")
    plain = json.loads(json.dumps([history, JUMP, REST]).replace("<|im_end|>", "here"))
    scripted.messages.create(**asked(messages=plain[0], tools=plain[1:]))
    assert prompt.count(end) == world.stage.prompts[1].count(end), "those of the template alone"


@pytest.mark.parametrize("choice", [{"type": "any"}, NAMED])
@pytest.mark.parametrize("model", ["default", "rag:animals"])
def test_forced_calls_follow_their_schema(tiny: anthropic.Anthropic, model: str, choice: Any) -> None:
    choice = {**choice, "disable_parallel_tool_use": True}
    whole = tiny.messages.create(**asked(model=model, tool_choice=choice))
    streamed, events = final(tiny, model=model, tool_choice=choice)
    assert parts(streamed) == parts(whole)
    for reply in (whole, streamed):
        (call,) = reply.content
        assert (call.type, reply.stop_reason) == ("tool_use", "tool_use")
        assert call.name in (("jump",) if choice["type"] == "tool" else ("jump", "rest"))
        if call.name == "jump":
            assert call.input["over"] in ("dog", "fox")
            assert 1 <= call.input["times"] <= 9
    if streamed.content[0].name == "jump":  # the other one takes no input
        assert len([event for event in events if event.type == "input_json"]) > 1


def test_several_forced_calls_are_blocks_one_after_the_other(tiny: anthropic.Anthropic) -> None:
    found = []
    for seed in range(8):
        own = {"seed": seed, "temperature": 4}
        reply, events = final(tiny, tool_choice={"type": "any"}, extra_body=own)
        found.append(len(reply.content))
        order = [event.type for event in events if event.type in ("content_block_start", "content_block_stop")]
        assert order == ["content_block_start", "content_block_stop"] * len(reply.content)
        assert parts(reply) == parts(tiny.messages.create(**asked(tool_choice={"type": "any"}, extra_body=own)))
    assert max(found) > 1


def test_a_call_that_is_cut_off_says_so(tiny: anthropic.Anthropic) -> None:
    whole = tiny.messages.create(**asked(tool_choice=NAMED))
    spent = whole.usage.output_tokens
    for most in range(1, spent - 3, 4):
        cut = tiny.messages.create(**asked(tool_choice=NAMED, max_tokens=most))
        streamed, _ = final(tiny, tool_choice=NAMED, max_tokens=most)
        assert cut.stop_reason == streamed.stop_reason == "max_tokens"
        assert [call.name for call in cut.content] in ([], ["jump"])
        assert [call.name for call in streamed.content] == [call.name for call in cut.content]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"tool_choice": {"type": "tool", "name": "leap"}}, "unknown_tool", "jump, rest"),
    ({"tool_choice": {"type": "any"}, "tools": []}, "missing_tools", "send `tools`"),
    ({"tool_choice": {"type": "tool"}}, "invalid_request", '"type": "any"'),
    ({"tool_choice": "any"}, "invalid_request", '"type": "any"'),
    ({"tool_choice": NAMED, "tools": [{"name": "jump", "input_schema": {"type": "string"}}]}, "invalid_schema",
     "input_schema"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "invalid_request", "tools of your own"),
    ({"tools": [{**REST, "defer_loading": True}]}, "invalid_request", "defer_loading"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "code", "words"), REFUSED)
def test_refusals_say_what_to_do(scripted: anthropic.Anthropic, changes: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as error:
        scripted.messages.create(**asked(**changes))
    assert (error.value.type, error.value.error_code) == ("invalid_request_error", code)
    assert words in str(error.value.api_message)
