"""`small_model` and its combinations: the chain is the draft model's own, its cache in step, its vocabulary fitted."""

from __future__ import annotations

from collections.abc import Sequence as Ids
from typing import Any, ClassVar

import pytest

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters import make_drafter
from decoder.drafters.base import Drafter
from decoder.drafters.casd import CasdDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.copyspec import CopySpecDrafter
from decoder.drafters.small_model import SmallModelDrafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.errors import DrafterUnavailable
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.target import TargetModel
from decoder.sampling.history import History
from decoder.sampling.select import select
from tests.support.tiny_models import tiny_target

VOCAB = 61
PROMPT = [5, 9, 14, 7, 5, 9, 30, 41, 12, 3]
MODES = {
    "greedy": SamplingParams(max_tokens=30, ignore_eos=True),
    "penalties": SamplingParams(max_tokens=30, repetition_penalty=1.3, frequency_penalty=0.5, ignore_eos=True),
    "sampled": SamplingParams(max_tokens=30, temperature=1.5, seed=3, ignore_eos=True),
    "everything": SamplingParams(
        max_tokens=30,
        temperature=1.1,
        top_k=30,
        top_p=0.95,
        min_p=0.01,
        repetition_penalty=1.2,
        presence_penalty=0.4,
        logit_bias={4: 2.0, 60: float("-inf")},
        seed=9,
        choice=1,
        ignore_eos=True,
    ),
}


class Counted:
    """Counts the passes of a draft model."""

    def __init__(self, model: TargetModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        prefill = model.prefill

        def counted(ids: Ids[int], *args: Any) -> ForwardOutputs:
            self.sizes.append(len(ids))
            return prefill(ids, *args)

        monkeypatch.setattr(model, "prefill", counted)


class Spoiler(Drafter):
    """Passes on what another drafts, or every third time a tree of its own: commits what the other did not draft."""

    name: ClassVar[str] = "spoiler"

    def __init__(self, drafter: Drafter, answer: list[int]) -> None:
        self.drafter = drafter
        self.answer = answer
        self.turn = 0

    def setup(self, context: DrafterContext) -> None:
        self.drafter.setup(context)

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        self.turn += 1
        if self.turn % 3:
            return self.drafter.draft(sequence, budget)
        ahead = self.answer[len(sequence.tokens) : len(sequence.tokens) + 3]
        return DraftTree.chain(ahead, [TokenSource(self.name)] * len(ahead))


def run(engine: Engine, params: SamplingParams, drafter: str | Drafter, prompt: Ids[int] = PROMPT) -> Sequence:
    sequence = engine.start(prompt, params, drafter=drafter)
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


def engine_of(target: TargetModel, draft: TargetModel | None) -> Engine:
    return Engine(target, "plain", context=DrafterContext(draft_model=draft))


@pytest.mark.parametrize("mode", MODES)
def test_the_target_as_its_own_draft_model_is_always_right(mode: str) -> None:
    """Also when sampling: both meet the same noise at the same position, with the same history."""
    engine = engine_of(tiny_target(), tiny_target())
    answer = run(engine, MODES[mode], "small_model")
    assert answer.tokens == run(engine, MODES[mode], "plain").tokens
    assert answer.stats.accepted == answer.stats.drafted == 24 - 1
    assert answer.stats.steps == 6


def test_noise_of_its_own_would_agree_less(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(tiny_target(), tiny_target())
    combined = run(engine, MODES["sampled"], "small_model").stats
    monkeypatch.setattr(
        "decoder.drafters.small_model.select",
        lambda logits, params, position, history: select(logits, params, position + 1000, history),
    )
    assert run(engine, MODES["sampled"], "small_model").stats.acceptance_rate < combined.acceptance_rate / 2


@pytest.mark.parametrize("memory", [0.0, 0.8])
@pytest.mark.parametrize("mode", MODES)
def test_every_chain_is_what_the_draft_model_says_without_a_cache(mode: str, memory: float) -> None:
    """Whatever was accepted, rejected, or drafted by another meanwhile."""
    draft = tiny_target(memory=memory)
    engine = engine_of(tiny_target(memory=0.3), draft)
    params = MODES[mode]
    plain = run(engine, params, "plain").tokens
    drafter = SmallModelDrafter(length=3)
    sequence = engine.start(PROMPT, params, drafter=Spoiler(drafter, plain))
    engine.prefill(sequence)
    chains = rejected = 0
    while not sequence.finished:
        text, tokens = [*sequence.prompt, *sequence.tokens], list(sequence.tokens)
        before = sequence.stats.accepted, sequence.stats.drafted
        spoiled = sequence.drafter.turn % 3 == 2  # type: ignore[attr-defined]
        tree = DraftTree() if spoiled or sequence.remaining <= 1 else drafter.draft(sequence, 64)
        engine.step([sequence])
        rejected += (sequence.stats.drafted - before[1]) > (sequence.stats.accepted - before[0])
        if len(tree):
            assert tree.tokens == slow_chain(draft, text, tokens, params, len(tree))
            chains += 1
    assert sequence.tokens == plain
    assert chains > 5
    assert rejected > 1


def slow_chain(
    model: TargetModel, text: list[int], answer: list[int], params: SamplingParams, length: int
) -> list[int]:
    text = list(text)
    history = History(PROMPT)
    for token in answer:
        history.push(token)
    for _ in range(length):
        logits = model.prefill(text, model.new_cache(len(text))).logits[0]
        text.append(select(logits, params, len(text), history))
        history.push(text[-1])
    return text[-length:]


def test_what_it_has_not_seen_takes_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    draft = tiny_target()
    engine = engine_of(tiny_target(), draft)
    counted = Counted(draft, monkeypatch)
    params = SamplingParams(max_tokens=11, ignore_eos=True)
    run(engine, params, "small_model")
    # 11 prompt and answer tokens, then 3 drafted ones; the last drafted token and the bonus token, then 3 more.
    assert counted.sizes == [11, 1, 1, 1, 2, 1, 1, 1]
    counted.sizes.clear()
    sequence = engine.start(PROMPT, params, drafter="small_model", max_nodes=0)
    engine.prefill(sequence)
    engine.step([sequence])
    assert counted.sizes == [], "nothing runs before the first draft"


@pytest.mark.parametrize("name", ["small_model", "copyspec+small_model", "casd+small_model"])
def test_without_a_draft_model_it_says_so(name: str) -> None:
    engine = engine_of(tiny_target(), None)
    with pytest.raises(DrafterUnavailable, match="RAG_DRAFT_MODEL"):
        engine.start(PROMPT, drafter=name)
    with pytest.raises(DrafterUnavailable, match="no draft model"):
        Engine(tiny_target(), name)
    with pytest.raises(DrafterUnavailable, match="draft model"):
        make_drafter(name).draft(Generation([1], SamplingParams(), (), make_drafter(name), None, frozenset()), 8)


def test_padded_vocabularies_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    drafted: list[int] = []

    def reject(tree: DraftTree, node: int, token: int) -> None:
        drafted.extend(tree.tokens)

    monkeypatch.setattr("decoder.verify.DraftTree.child", reject)
    for size in (50, 70):
        drafted.clear()
        engine = engine_of(tiny_target(vocab_size=VOCAB), tiny_target(vocab_size=size))
        for params in MODES.values():
            run(engine, params, "small_model")
        assert drafted
        assert max(drafted) < min(size, VOCAB)


def test_tokens_the_draft_model_lacks_end_its_drafts() -> None:
    engine = engine_of(tiny_target(vocab_size=VOCAB), tiny_target(vocab_size=50))
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    prompt = [*PROMPT, 55]
    sequence = run(engine, params, "small_model", prompt)
    assert sequence.tokens == run(engine, params, "plain", prompt).tokens
    assert sequence.stats.drafted == 0


def test_another_tokenizer_is_refused() -> None:
    engine = engine_of(tiny_target(vocab_size=VOCAB), tiny_target(vocab_size=2000))
    with pytest.raises(DrafterUnavailable, match="2000 token ids and the target 61"):
        engine.start(PROMPT, drafter="small_model")


def test_beyond_its_window_it_drafts_nothing() -> None:
    engine = engine_of(tiny_target(), tiny_target(window=len(PROMPT) + 12))
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    sequence = run(engine, params, "small_model")
    assert sequence.tokens == run(engine, params, "plain").tokens
    assert 10 <= sequence.stats.drafted <= 13


def test_copyspec_asks_the_small_model_only_where_nothing_matches() -> None:
    engine = engine_of(tiny_target(), tiny_target())
    sequence = engine.start([5, 9, 14, 7, 8, 5, 9, 14], drafter="copyspec+small_model")
    engine.prefill(sequence)
    tree = sequence.drafter.draft(sequence, 64)  # the first answer token broke the match
    assert {source.drafter for source in tree.sources} == {"small_model"}
    assert len(tree) == 4
    repeated = [sequence.last_token, 20, 21]
    sequence = engine.start([*repeated, 30, 31, *repeated], drafter="copyspec+small_model")
    tree = sequence.drafter.draft(sequence, 64)
    assert tree.tokens == [30, 31, *repeated]
    assert {source.drafter for source in tree.sources} == {"copyspec"}


def test_casd_adds_copies_beside_the_chain() -> None:
    engine = engine_of(tiny_target(), tiny_target())
    prompt = [5, 9, 14, 7, 8, 40, 41, 42, 43, 44, 45, 9, 14]
    alone = [
        engine.start(prompt, drafter=name).drafter.draft(engine.start(prompt), 64) for name in ("casd", "small_model")
    ]
    both = engine.start(prompt, drafter="casd+small_model").drafter
    tree = both.draft(engine.start(prompt), 64)
    assert tree.tokens == alone[0].tokens + alone[1].tokens
    assert [source.drafter for source in tree.sources].count("small_model") == 4
    small = both.draft(engine.start(prompt), 6)  # too little for both: the copies yield, down to half
    assert [source.drafter for source in small.sources] == ["casd"] * 3 + ["small_model"] * 3
    for budget in (0, 1):
        least = engine.start(prompt, drafter="casd+small_model").drafter.draft(engine.start(prompt), budget)
        assert least.tokens == alone[1].tokens[:budget]


class Neural(Drafter):
    """Stands where an EAGLE head will: reads hidden states, drafts a fixed chain."""

    name: ClassVar[str] = "neural"
    required_outputs = RequiredOutputs(hidden=frozenset({1}))

    def __init__(self) -> None:
        self.seen = 0

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return DraftTree.chain([7, 8], [TokenSource(self.name)] * 2)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        assert 1 in outputs.hidden
        self.seen += len(outputs.hidden[1])


@pytest.mark.parametrize("combine", [lambda d: CopySpecDrafter(fallback=d), lambda d: CasdDrafter(partner=d)])
def test_any_drafter_can_be_the_partner(combine: Any) -> None:
    engine = engine_of(tiny_target(), None)
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    neural = Neural()
    sequence = run(engine, params, combine(neural))
    assert sequence.tokens == run(engine, params, "plain").tokens
    assert neural.seen == len(PROMPT) + 19, "every row that was kept, whoever drafted it"


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="length"):
        SmallModelDrafter(length=0)
    for option in ({"fallback": "small_model"}, {"gamma": 9}):
        with pytest.raises((TypeError, ValueError), match=r"partner|gamma"):
            CopySpecDrafter(**option)  # type: ignore[arg-type]
