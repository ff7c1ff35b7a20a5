"""Peers run on the engine's own weights and leave them as they were; one prefill serves all of the engine's modes."""

from __future__ import annotations

from typing import Any

import pytest

from decoder import Engine, SamplingParams
from decoder.bench.decode.interleaved import modes_of
from decoder.bench.decode.peers import PeerMode, Peers, is_peer
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.bench.decode.timing import measure
from decoder.drafters.context import DrafterContext
from decoder.model.attention import NAME
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.recording.specs import make_from_spec
from decoder.sequence import PromptSegment
from tests.support.tiny_models import tiny_model, tiny_target

VOCAB = 61
PROMPT = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6]
PARAMS = SamplingParams(max_tokens=40)
EVERY = ["plain", "casd", "pld_plus", "pld_plus:ranking=a", "logitspec", "small_model", "casd:exact=strict", "auto"]


def engine_of(seed: int = 3, memory: float = 0.05) -> Engine:
    context = DrafterContext(draft_model=tiny_target(vocab_size=VOCAB, seed=4, memory=0.05), induction_heads=((0, 1),))
    target = tiny_target(vocab_size=VOCAB, seed=seed, memory=memory, window=200)
    return Engine(target, "plain", eos_token_ids=[2], context=context)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return engine_of()


@pytest.fixture(scope="module")
def peers(engine: Engine) -> Peers:
    return Peers(engine.target, [2], lambda name: tiny_model(vocab_size=VOCAB, seed=int(name), memory=0.05).eval())


@pytest.mark.parametrize(
    "spec",
    [
        "hf",
        "hf:prompt_lookup=10",
        "hf:prompt_lookup=5:max_matching_ngram_size=3",
        "hf:assistant=4",
        "hf:assistant=3:num_assistant_tokens=3:num_assistant_tokens_schedule=constant",
    ],
)
def test_peers_say_what_plain_says_in_counted_passes(
    engine: Engine, peers: Peers, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = engine.target.model
    passes: list[int] = []
    forward = model.forward

    def counted(*arguments: Any, **named: Any) -> Any:
        passes.append(named["input_ids"].shape[1])
        return forward(*arguments, **named)

    plain = measure(engine, PROMPT, PARAMS, "plain")
    before = model.generation_config
    monkeypatch.setattr(model, "forward", counted)
    answer = peers.measure(spec, PROMPT, PARAMS)
    monkeypatch.undo()
    assert (answer.tokens, answer.finish_reason) == (plain.tokens, plain.finish_reason)
    assert answer.steps == len(passes) - 1
    assert answer.drafted == sum(passes) - len(PROMPT) - answer.steps
    assert answer.prefill_s > 0
    assert answer.decode_s > 0
    assert answer.first >= 1
    assert (model.config._attn_implementation, model.generation_config) == (NAME, before)
    assert not model._forward_pre_hooks
    assert measure(engine, PROMPT, PARAMS, "plain").tokens == plain.tokens
    if spec == "hf":
        assert (answer.steps, answer.drafted, answer.accepted, answer.first) == (len(plain.tokens) - 1, 0, 0, 1)
    else:
        assert answer.steps < len(plain.tokens) - 1
        assert answer.accepted == len(plain.tokens) - len(passes)
        assert answer.by_source == {"hf": [answer.drafted, answer.accepted]}
        assert answer.copied == (0 if "assistant" in spec else answer.accepted)


def test_the_clock_starts_behind_the_first_pass(engine: Engine, peers: Peers) -> None:
    """The prompt repeats itself, so prompt lookup drafts in the prefill pass and several tokens are there at once."""
    several = []
    for start in range(3, VOCAB):
        answer = peers.measure("hf:prompt_lookup=10", [start] * 8, PARAMS)
        if answer.first > 1:
            several.append(answer)
            assert len(answer.tokens) - answer.first <= answer.steps * 11
    assert several


def test_the_models_own_generation_defaults_do_not_count(engine: Engine, peers: Peers) -> None:
    model = engine.target.model
    before = model.generation_config
    model.generation_config = type(before)(repetition_penalty=5.0, temperature=0.3, do_sample=True, max_new_tokens=3)
    try:
        assert peers.measure("hf", PROMPT, PARAMS).tokens == measure(engine, PROMPT, PARAMS, "plain").tokens
    finally:
        model.generation_config = before


def test_a_peer_that_fails_leaves_the_model_as_it_was(
    engine: Engine, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = engine.target.model
    monkeypatch.setattr(model, "generate", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        peers.measure("hf", PROMPT, PARAMS)
    assert model.config._attn_implementation == NAME
    assert not model._forward_pre_hooks


def test_the_draft_models_weights_serve_as_assistant(engine: Engine) -> None:
    draft = engine.context.draft_model
    assert draft is not None
    shared = Peers(engine.target, [2], lambda name: draft.model)
    answer = shared.measure("hf:assistant=draft", PROMPT, PARAMS)
    assert answer.tokens == measure(engine, PROMPT, PARAMS, "plain").tokens
    assert draft.model.config._attn_implementation == NAME
    assert measure(engine, PROMPT, PARAMS, "small_model").tokens == answer.tokens


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("llama.cpp", "does not run here"),
        ("hf:lookup=3", "has the option 'lookup'"),
        ("hf:assistant=x:prompt_lookup=3", "has the option 'prompt_lookup'"),
        ("hf:max_matching_ngram_size=3", "looks up nothing"),
        ("hf:prompt_lookup=0", "at least 1"),
        ("hf:prompt_lookup=true", "at least 1"),
        ("hf:prompt_lookup", "an option without a value"),
    ],
)
def test_specs_that_cannot_be_run(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        modes_of(spec)


def test_specs() -> None:
    modes = modes_of("casd,hf,hf:prompt_lookup=10")
    assert modes == ["plain", "casd", "hf", "hf:prompt_lookup=10"]
    assert [is_peer(mode) for mode in modes] == [False, False, True, True]
    parsed = PeerMode.parse("hf:assistant=owner/name:num_assistant_tokens=5")
    assert (parsed.assistant, parsed.assistant_settings) == ("owner/name", {"num_assistant_tokens": 5})


# -- one prefill ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [PROMPT, [7], [7, 8]])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_shared_prefill_changes_nothing_but_the_passes(prompt: list[int], temperature: float) -> None:
    params = SamplingParams(max_tokens=40, temperature=temperature, seed=5)
    alone, together = engine_of(), engine_of()
    required_outputs = RequiredOutputs()
    for spec in EVERY:
        drafter = make_from_spec(spec.partition(":exact")[0])
        drafter.setup(together.context)
        required_outputs |= drafter.required_outputs
    assert required_outputs.hidden
    assert required_outputs.queries
    shared = SharedPrefill(together.target, prompt, required_outputs)
    for spec in EVERY:
        expected = measure(alone, prompt, params, spec)
        answer = measure(together, prompt, params, spec, shared=shared)
        counts = ("tokens", "steps", "drafted", "accepted", "by_source", "by_kind")
        if spec != "auto":  # which goes by times
            assert {n: getattr(answer, n) for n in counts} == {n: getattr(expected, n) for n in counts}, spec
        assert answer.tokens == expected.tokens
        assert answer.prefill_s >= shared.seconds


def test_a_shared_prompt_runs_one_row_more_in_each_mode(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    forward = TargetModel._forward

    def counted(target: TargetModel, ids: list[int], *more: Any, **named: Any) -> Any:
        rows.append(len(ids))
        return forward(target, ids, *more, **named)

    monkeypatch.setattr(TargetModel, "_forward", counted)
    shared = SharedPrefill(engine.target, PROMPT, RequiredOutputs())
    one = SamplingParams(max_tokens=1)
    for _ in range(2):
        measure(engine, PROMPT, one, "casd", shared=shared)
    assert rows == [len(PROMPT) - 1, 1, 1]


def test_a_prefill_that_kept_too_little_is_refused(engine: Engine) -> None:
    shared = SharedPrefill(engine.target, PROMPT, RequiredOutputs())
    with pytest.raises(ValueError, match="pld_plus needs more"):
        measure(engine, PROMPT, PARAMS, "pld_plus", shared=shared)


def test_copies_are_counted_by_what_they_were_copied_from(engine: Engine) -> None:
    parts = [PromptSegment("passage", 6), PromptSegment("message", len(PROMPT) - 6)]
    answer = measure(engine, PROMPT, PARAMS, "casd", segments=parts)
    assert sum(answer.by_kind.values()) == answer.copied > 0
    assert set(answer.by_kind) <= {"passage", "message", "answer"}
    assert "answer" in answer.by_kind  # the tiny model repeats itself
    untagged = measure(engine, PROMPT, PARAMS, "casd").by_kind
    assert untagged.get("answer") == answer.by_kind["answer"]
    assert set(untagged) <= {"prompt", "answer"}
    earlier = measure(engine, PROMPT, PARAMS, "casd", segments=[PromptSegment("answer", len(PROMPT))]).by_kind
    assert earlier == {"conversation" if kind == "prompt" else kind: count for kind, count in untagged.items()}
