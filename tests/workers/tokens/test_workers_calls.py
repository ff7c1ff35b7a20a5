"""Calls of tools that an answer has to be: the form of a chat template, and grammars of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from decoder import Engine, SamplingParams
from tests.support.fake_workers import QWEN_TEMPLATE, TOOLS_TEMPLATE, save_tokenizer
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter, tiny_target
from workers.broker.messages import CallableFunction, Calls, GenerateJob, Sampling
from workers.grammar.grammars import Grammars
from workers.grammar.schemas import BadSchema, check_calls
from workers.tokens.call_form import CallForm
from workers.tokens.chat_template import ChatTemplate
from workers.tokens.tokenizer import Tokens

OVER: dict[str, Any] = {
    "type": "object",
    "properties": {"over": {"enum": ["dog", "fox"]}, "times": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["over", "times"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
JUMP, REST = CallableFunction(name="jump", parameters=OVER), CallableFunction(name="rest", parameters=NOTHING)
CALL = re.compile(r"<tool_call>\n(\{.*?\})\n</tool_call>")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(save_tokenizer(tmp_path_factory.mktemp("tokenizer"), "tools"))


@pytest.fixture(scope="module")
def engine(tokens: Tokens) -> Engine:
    return Engine(tiny_target("llama", tokens.vocab_size + 13, memory=0.05), "plain", tokens.eos_ids)


def job(calls: Calls) -> GenerateJob:
    return GenerateJob(
        answer_id="a", session_id="", question="?", segments=[], sampling=Sampling(seed=1), calls=calls, created=0.0
    )


def test_the_form_is_the_templates_own() -> None:
    qwen = CallForm('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "\n")
    assert ChatTemplate(TOOLS_TEMPLATE).call_form == qwen == CallForm()
    other = TOOLS_TEMPLATE.replace('\'\\n<tool_call>\\n{"name": "\'', '\'<tool_call>{ "name":"\'')
    other = other.replace("'}\\n</tool_call>'", "' }</tool_call>'")
    assert ChatTemplate(other).call_form == CallForm('<tool_call>{ "name":"', '", "arguments": ', " }</tool_call>", "")
    no_json = TOOLS_TEMPLATE.replace('\'", "arguments": \'', "' <- '")
    assert ChatTemplate(no_json).call_form == CallForm()
    assert ChatTemplate(QWEN_TEMPLATE).call_form is None


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_calls_are_the_same_whoever_drafts(engine: Engine, tokens: Tokens, temperature: float, many: bool) -> None:
    grammar = Grammars(tokens).of_job(job(Calls(functions=[JUMP, REST], many=many)))
    prompt = tokens.encode_content('Say <tool_call>\n{"name": "jump", "arguments": {"over": "dog"}}\n</tool_call>').ids
    for seed in range(2):
        params = SamplingParams(max_tokens=120, temperature=temperature, seed=seed, grammar=grammar)
        answers = {}
        drafters: list[Any] = ["plain", "pld", "copyspec", "casd", "logitspec", "auto", RandomDrafter(seed, 300)]
        for drafter in drafters:
            steps = list(engine.generate(prompt, params, drafter=drafter))
            answers[drafter] = [token for step in steps for token in step.tokens], steps[-1].finish_reason
        expected, reason = answers["plain"]
        steps = list(engine.generate(prompt, params, drafter=AdversarialDrafter(expected, tokens.vocab_size, seed)))
        answers["adversarial"] = [token for step in steps for token in step.tokens], steps[-1].finish_reason
        assert all(answer == (expected, reason) for answer in answers.values())
        text = tokens.decode(expected)
        found = [json.loads(call) for call in CALL.findall(text)]
        if reason == "stop":
            assert CALL.sub("", text).strip() == ""
            assert len(found) >= 1 if many else len(found) == 1
        else:
            assert many
        for call in found:
            assert set(call) == {"name", "arguments"}
            if call["name"] == "rest":
                assert call["arguments"] == {}
            else:
                assert call["arguments"]["over"] in ("dog", "fox")
                assert 1 <= call["arguments"]["times"] <= 9


def test_further_calls_only_where_many_are_wanted(tokens: Tokens) -> None:
    call = tokens.encode_written('<tool_call>\n{"name": "rest", "arguments": {}}\n</tool_call>')
    for many in (False, True):
        grammar = Grammars(tokens).of_job(job(Calls(functions=[REST], many=many)))
        assert grammar is not None
        state = grammar.begin()
        for token in call:
            assert state.allowed()[token]
            state.push(token)
        assert state.complete != many
        if many:
            allowed = state.allowed()
            assert allowed[list(tokens.eos_ids)].all()
            assert allowed[tokens.encode_content("\n").ids[0]]


def test_the_control_token_of_the_tag_begins_a_call(tokens: Tokens) -> None:
    """A model's own token for the tag is what it was trained to write."""
    grammar = Grammars(tokens).of_job(job(Calls(functions=[JUMP])))
    assert grammar is not None
    (tag,) = tokens.encode_template("<tool_call>")
    assert grammar.begin().allowed()[tag]


def test_schemas_that_cannot_be_held_to_are_refused_by_the_functions_name() -> None:
    bad = CallableFunction(name="leap", parameters={"type": "object", "properties": {"how": {"type": "thing"}}})
    with pytest.raises(BadSchema, match=r"^leap: .*thing"):
        check_calls(Calls(functions=[JUMP, bad]), None)
    check_calls(Calls(functions=[JUMP, REST], many=True), None)
