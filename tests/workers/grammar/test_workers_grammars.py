"""JSON schemas as grammars: what comes out parses, whoever drafts and whatever the tokenizer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from decoder import Engine, SamplingParams
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.sampling.history import History
from tests.support.fake_workers import save_tokenizer
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter, knowing_adapters, tiny_eagle, tiny_target
from workers.grammar.grammars import CACHED, Grammars
from workers.grammar.schemas import BadSchema, check_schema
from workers.tokens.tokenizer import Tokens

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "jumps": {"type": "boolean"},
        "kind": {"enum": ["fox", "dog"]},
        "legs": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
    },
    "required": ["name", "jumps", "kind", "legs"],
    "additionalProperties": False,
}
DRAFTERS = (
    "pld", "copyspec", "casd", "pld_plus", "logitspec", "recycling", "lookahead", "small_model", "casd+small_model",
    "eagle", "copyspec+eagle", "sdsat", "sdsat_two_step", "auto",
)  # fmt: skip


@pytest.fixture(scope="module", params=["smollm", "qwen"])
def tokens(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(save_tokenizer(tmp_path_factory.mktemp("tokenizer"), request.param))


@pytest.fixture(scope="module")
def engine(tokens: Tokens) -> Engine:
    """More logits than the tokenizer has ids, as models have them."""
    size = tokens.vocab_size + 13
    target = tiny_target("llama", size, memory=0.05)
    target.adapters = knowing_adapters(target)
    context = DrafterContext(
        draft_model=tiny_target("llama", size, memory=0.0),
        eagle_head=tiny_eagle(target, draft_vocab=200),
        induction_heads=((0, 1), (1, 3)),
    )
    return Engine(target, "plain", tokens.eos_ids, context=context)


def answer(engine: Engine, tokens: Tokens, params: SamplingParams, drafter: str | Drafter) -> tuple[list[int], str]:
    prompt = tokens.encode_content('Say {"name": "fox", "jumps": true, "kind": "fox", "legs": [1, 2]}').ids
    ids: list[int] = []
    for step in engine.generate(prompt, params, drafter=drafter):
        ids += step.tokens
    assert step.finish_reason is not None
    return ids, step.finish_reason


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_follow_their_schema_whoever_drafts(engine: Engine, tokens: Tokens, temperature: float) -> None:
    grammar = Grammars(tokens).of(PERSON)
    for seed in range(2):
        params = SamplingParams(max_tokens=120, temperature=temperature, seed=seed, grammar=grammar)
        expected, reason = answer(engine, tokens, params, "plain")
        assert reason == "stop"
        found = json.loads(tokens.decode(expected))
        assert list(found) == ["name", "jumps", "kind", "legs"]
        assert len(found["name"]) <= 8
        assert isinstance(found["jumps"], bool)
        assert found["kind"] in ("fox", "dog")
        assert expected[-1] not in tokens.eos_ids
        drafters: list[str | Drafter] = [
            *DRAFTERS,
            AdversarialDrafter(expected, tokens.vocab_size, seed),
            RandomDrafter(seed, tokens.vocab_size),
        ]
        for drafter in drafters:
            assert answer(engine, tokens, params, drafter) == (expected, "stop")


def test_text_before_the_end_and_what_may_follow(tokens: Tokens) -> None:
    state = Grammars(tokens).of({"type": "integer"}).begin()
    for token in tokens.encode_content("12").ids:
        assert state.allowed()[token]
        state.push(token)
    assert not state.complete  # digits may follow
    assert state.allowed()[list(tokens.eos_ids)].all()
    state.push(min(tokens.eos_ids))
    assert state.complete


def test_control_tokens_are_no_text(tokens: Tokens) -> None:
    state = Grammars(tokens).of({"type": "string"}).begin()
    for token in tokens.encode_content('"a').ids:
        state.push(token)
    allowed = set(np.flatnonzero(state.allowed()).tolist())
    assert allowed
    assert not [token for token in allowed if not tokens.token_bytes(token)]


def test_looking_ahead_may_leave_the_grammar_and_the_answer_may_not(tokens: Tokens) -> None:
    history = History([1], Grammars(tokens).of(PERSON).begin())
    assert history.grammar is not None
    ahead = history.copy()
    wrong = tokens.encode_content("x").ids[0]
    ahead.push(wrong)
    assert ahead.grammar is not None
    assert not ahead.grammar.allowed().any()
    assert ahead.complete_after is None
    assert history.grammar.allowed().any()
    with pytest.raises(BadSchema):
        history.push(wrong)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "thing"},
        {"type": "string", "pattern": "("},
        {"$ref": "#/nowhere"},
        {"type": "object", "properties": 5},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"not": {"type": "string"}},
    ],
)
def test_bad_schemas_are_refused_with_a_reason(tokens: Tokens, schema: dict[str, Any]) -> None:
    for check in (check_schema, Grammars(tokens).of):
        with pytest.raises(BadSchema) as error:
            check(schema)
        assert len(str(error.value)) > 10
        assert "<state>" not in str(error.value)


def test_compiled_grammars_are_kept_for_a_while(tokens: Tokens) -> None:
    grammars = Grammars(tokens)
    first = grammars.of(PERSON)
    assert grammars.of(json.loads(json.dumps(PERSON))) is first
    for length in range(CACHED):
        grammars.of({"type": "string", "maxLength": length})
    assert grammars.of(PERSON) is not first
