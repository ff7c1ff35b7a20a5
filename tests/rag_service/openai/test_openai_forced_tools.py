"""Forced calls of tools, over HTTP: held to the template's form and to the arguments' schema, from a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from rag_service.openai.schemas import ChatRequest
from rag_service.replying.forced_calls import CallReader
from tests.support.stacks.tool_stack import tiny_engine, tool_stack
from workers.tokens.call_form import CallForm

ASKED: list[Any] = [{"role": "user", "content": "Jump!"}]
OVER: dict[str, Any] = {
    "type": "object",
    "properties": {"over": {"enum": ["dog", "fox"]}, "times": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["over", "times"],
}
JUMP: Any = {"type": "function", "function": {"name": "jump", "parameters": OVER}}
REST: Any = {"type": "function", "function": {"name": "rest", "description": "Does nothing."}}
NAMED: Any = {"type": "function", "function": {"name": "jump"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Any]:
    with tool_stack(tmp_path_factory.mktemp, data_dir, tiny_engine, window=2400) as world:
        yield world


@pytest.fixture
def api(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(api: openai.OpenAI, **changes: Any) -> Any:
    asked = {"model": "default", "messages": ASKED, "tools": [JUMP, REST], "max_tokens": 300, "seed": 3, **changes}
    return api.chat.completions.create(**asked)


def read(calls: Any) -> list[tuple[str, dict[str, Any]]]:
    found = [(call.function.name, json.loads(call.function.arguments)) for call in calls or ()]
    for name, arguments in found:
        if name == "rest":
            assert arguments == {}
        else:
            assert name == "jump"
            assert set(arguments) == {"over", "times"}
            assert arguments["over"] in ("dog", "fox")
            assert 1 <= arguments["times"] <= 9
    return found


@pytest.mark.parametrize("model", ["default", "rag:animals"])
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_forced_answer_is_a_call_whoever_drafts(api: openai.OpenAI, model: str, choice: Any) -> None:
    told = {}
    for drafter in ("off", "auto", "pld"):
        reply = ask(
            api, model=model, tool_choice=choice, parallel_tool_calls=False, n=3, extra_body={"speculation": drafter}
        )
        for answer in reply.choices:
            assert answer.finish_reason == ("stop" if choice is NAMED else "tool_calls")
            assert answer.message.content is None
            ((name, _),) = read(answer.message.tool_calls)
            assert name == "jump" or choice == "required"
            assert answer.message.tool_calls[0].type == "function"
        told[drafter] = [answer.message.tool_calls[0].function for answer in reply.choices]
    assert told["off"] == told["auto"] == told["pld"]
    assert len({function.arguments for function in told["off"]}) > 1


def test_any_tool_may_be_called_and_several(api: openai.OpenAI) -> None:
    reply = ask(api, tool_choice="required", n=8, temperature=4)
    found = [read(answer.message.tool_calls) for answer in reply.choices]
    assert all(found)
    assert {name for calls in found for name, _ in calls} == {"jump", "rest"}
    assert len({len(calls) for calls in found}) > 1


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_forced_calls_are_streamed_in_pieces(api: openai.OpenAI, choice: Any) -> None:
    whole = ask(api, tool_choice=choice).choices[0]
    calls: dict[int, dict[str, Any]] = {}
    reasons, heads = [], 0
    for chunk in ask(api, tool_choice=choice, stream=True):
        (answer,) = chunk.choices
        assert not answer.delta.content
        reasons.append(answer.finish_reason)
        for piece in answer.delta.tool_calls or ():
            assert len(answer.delta.tool_calls) == 1
            if piece.function.name is not None:
                assert piece.index == len(calls)
                assert piece.type == "function"
                heads += 1
                calls[piece.index] = {"id": piece.id, "name": piece.function.name, "arguments": ""}
            else:
                assert piece.id is None
            calls[piece.index]["arguments"] += piece.function.arguments or ""
    assert len({call["id"] for call in calls.values()}) == len(calls) == heads
    assert [(call["name"], call["arguments"]) for call in calls.values()] == [
        (call.function.name, call.function.arguments) for call in whole.message.tool_calls
    ]
    assert reasons[-1] == whole.finish_reason
    assert set(reasons[:-1]) == {None}


def test_the_clients_own_reader_of_streams_and_schemas(api: openai.OpenAI) -> None:
    from pydantic import BaseModel

    class Jump(BaseModel):
        high: bool

    tool: Any = openai.pydantic_function_tool(Jump)
    chosen: Any = {"type": "function", "function": {"name": "Jump"}}
    asked: dict[str, Any] = {"model": "default", "messages": ASKED, "tools": [tool], "tool_choice": chosen, "seed": 1}
    reply = api.chat.completions.parse(**asked)
    (call,) = reply.choices[0].message.tool_calls or ()
    assert isinstance(call.function.parsed_arguments, Jump)
    with api.chat.completions.stream(**asked) as stream:
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls or ()
    assert streamed.function.arguments == call.function.arguments


def test_a_call_that_is_cut_off_says_so(api: openai.OpenAI) -> None:
    whole = ask(api, tool_choice=NAMED)
    spent = whole.usage.completion_tokens
    cut = ask(api, tool_choice=NAMED, max_tokens=spent - 6).choices[0]
    assert cut.finish_reason == "length"
    (call,) = cut.message.tool_calls
    assert call.function.name == "jump"
    arguments = whole.choices[0].message.tool_calls[0].function.arguments
    assert arguments.startswith(call.function.arguments)
    assert len(call.function.arguments) < len(arguments)
    nothing = ask(api, tool_choice=NAMED, max_tokens=1).choices[0]
    assert (nothing.finish_reason, nothing.message.content, nothing.message.tool_calls) == ("length", None, None)


def test_what_else_is_asked_of_an_answer_cannot_undo_the_call(api: openai.OpenAI) -> None:
    plain = read(ask(api, tool_choice=NAMED).choices[0].message.tool_calls)
    for more in ({"stop": ["\n", "{"]}, {"response_format": {"type": "json_object"}}):
        assert read(ask(api, tool_choice=NAMED, **more).choices[0].message.tool_calls) == plain
    measured = ask(api, tool_choice=NAMED, logprobs=True).choices[0]
    assert read(measured.message.tool_calls) == plain
    chunks = [chunk.choices[0] for chunk in ask(api, tool_choice=NAMED, logprobs=True, stream=True)]
    told = [one.token for chunk in chunks if chunk.logprobs for one in chunk.logprobs.content]
    assert told == [one.token for one in measured.logprobs.content]


REFUSED: list[tuple[dict[str, Any], str | None, str, str]] = [
    ({"tool_choice": {"type": "function", "function": {"name": "leap"}}}, "tool_choice", "unknown_tool", "jump, rest"),
    ({"tool_choice": "required", "tools": []}, "tool_choice", "missing_tools", "send `tools`"),
    ({"tool_choice": "any"}, "tool_choice", "invalid_request", '"required"'),
    ({"tool_choice": {"type": "function"}}, "tool_choice", "invalid_request", '"required"'),
    ({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "thing"}}}}}]}, "tools", "invalid_schema", "f: .*thing"),
    ({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "string"}}}]}, "tools", "invalid_schema", "object"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "param", "code", "words"), REFUSED)
def test_refusals_say_what_to_do(
    api: openai.OpenAI, changes: dict[str, Any], param: str | None, code: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=words) as error:
        ask(api, **changes)
    assert (error.value.code, error.value.param) == (code, param)


def test_chat_openai_of_langchain_forces_calls(api_url: str) -> None:
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    class Jump(BaseModel):
        high: bool

    model = ChatOpenAI(model="default", base_url=f"{api_url}/v1", api_key="none", seed=4)  # type: ignore[arg-type, call-arg]
    assert isinstance(model.with_structured_output(Jump, method="function_calling").invoke("Jump!"), Jump)
    bound = model.bind_tools([JUMP, REST], tool_choice="rest")
    assert [call["name"] for call in bound.invoke("Jump!").tool_calls] == ["rest"]


def test_the_services_own_chat_model_forces_calls(api_url: str) -> None:
    from langchain_core.messages import AIMessageChunk

    from rag_service.langchain import ChatRagService

    model = ChatRagService(base_url=api_url, seed=4, temperature=1.0, max_tokens=300)
    for choice, names in (("rest", {"rest"}), ("jump", {"jump"}), ("any", {"jump", "rest"}), (True, {"jump", "rest"})):
        (call, *_) = model.bind_tools([JUMP, REST], tool_choice=choice).invoke("Jump!").tool_calls
        assert call["name"] in names
    bound = model.bind_tools([JUMP], tool_choice=NAMED, parallel_tool_calls=False)
    pieces = list(bound.stream("Jump!"))
    assert len([piece for piece in pieces if isinstance(piece, AIMessageChunk) and piece.tool_call_chunks]) > 2
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece  # type: ignore[assignment]
    assert isinstance(whole, AIMessageChunk)
    (streamed,), (invoked,) = whole.tool_calls, bound.invoke("Jump!").tool_calls
    assert (streamed["name"], streamed["args"]) == (invoked["name"], invoked["args"])
    assert streamed["args"]["over"] in ("dog", "fox")


@pytest.mark.parametrize("size", [1, 2, 7, 500])
def test_calls_are_read_whatever_the_pieces(size: int) -> None:
    arguments = ['{"a": "}\\"</tool_call>{", "b": [{"c": "\\\\"}, {}]}', "{}"]
    form = CallForm()
    text = form.joint.join(f"{form.before}f{form.between}{one}{form.after}" for one in arguments)
    for end in range(0, len(text) + 1, size):
        reader = CallReader(form, "x")
        told: dict[int, str] = {}
        for at in range(0, end, size):
            for item in reader.push(text[at : min(at + size, end)]):
                told[item["index"]] = told.get(item["index"], "") + item["function"]["arguments"]
        assert [call["function"]["arguments"] for call in reader.calls] == list(told.values())
        assert all(one.startswith(piece) for one, piece in zip(arguments, told.values(), strict=False))
    reader = CallReader(form, "x")
    reader.push(text)
    assert [call["function"]["arguments"] for call in reader.calls] == arguments
    assert [call["id"] for call in reader.calls] == ["call_x_0", "call_x_1"]


def test_what_leaves_the_choice_to_the_model() -> None:
    for choice in (None, "auto", "none"):
        body = ChatRequest.model_validate(
            {"model": "m", "messages": ASKED, "tools": [JUMP], **({} if choice is None else {"tool_choice": choice})}
        )
        assert not body.forces
        assert body.forced == []
        assert len(body.offered) == (choice != "none")
