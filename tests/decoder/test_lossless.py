"""The gate: with any drafter, every answer is token-identical to plain decoding (float64, tiny stock models)."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from decoder import Engine, RepetitionStop, SamplingParams, Sequence
from decoder.drafter_names import DRAFTER_NAMES
from decoder.drafters import make_drafter
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.eagle.drafter import EagleDrafter
from decoder.drafters.pld_plus import PldPlusDrafter
from decoder.drafters.small_model import SmallModelDrafter
from decoder.heads.head import FittedHead
from decoder.model.target import TargetModel
from tests.support.models.trained_heads import trained_eagle
from tests.support.tiny_models import (
    ARCHITECTURES,
    AdversarialDrafter,
    RandomDrafter,
    UnionDrafter,
    WalkGrammar,
    decoded,
    decoded_together,
    knowing_adapters,
    tiny_eagle,
    tiny_target,
)

VOCAB = 61
PROMPTS = 10
MAX_TOKENS = 24
REPEATING = 32
"""Tokens in which every answer of the target of little memory has repeated itself."""
LONGER = 40
"""Tokens of answers with `--full`."""
NEAR_TIE = 0.3
"""Margin of strict modes: wide, so that many choices are made again."""

MODES: dict[str, SamplingParams] = {
    "greedy": SamplingParams(max_tokens=MAX_TOKENS),
    "greedy_no_eos": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True),
    "greedy_penalties": SamplingParams(
        max_tokens=MAX_TOKENS, repetition_penalty=1.2, presence_penalty=0.3, frequency_penalty=0.2
    ),
    "greedy_bias": SamplingParams(
        max_tokens=MAX_TOKENS,
        logit_bias={2: 3.0, 5: float("-inf"), 6: float("-inf"), 7: 1.5},
        openings=tuple((token,) for token in range(0, VOCAB, 2)),
    ),
    "temperature": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, seed=1),
    "hot": SamplingParams(max_tokens=MAX_TOKENS, temperature=3.0, seed=2, ignore_eos=True),
    "top_k": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.0, top_k=4, seed=3),
    "top_p": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.0, top_p=0.6, seed=4),
    "min_p": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.2, min_p=0.1, seed=5),
    "all": SamplingParams(
        max_tokens=MAX_TOKENS,
        temperature=0.9,
        top_k=20,
        top_p=0.9,
        min_p=0.02,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.1,
        logit_bias={3: 1.0},
        openings=tuple((token, other) for token in range(VOCAB) for other in range(0, VOCAB, 3)),
        seed=6,
        choice=2,
    ),
    "stop_string": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.7, seed=7, stop=("ab", "q", "xyz")),
    "stop_token": SamplingParams(max_tokens=MAX_TOKENS, stop_token_ids=(9, 10, 11, 12)),
    "strict": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, exact="strict"),
    "grammar": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, grammar=WalkGrammar(VOCAB)),
    "grammar_sampled": SamplingParams(
        max_tokens=MAX_TOKENS, temperature=0.9, top_p=0.9, frequency_penalty=0.1, seed=9, grammar=WalkGrammar(VOCAB)
    ),
    "strict_sampled": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, top_p=0.9, seed=8, exact="strict"),
    "repetition": SamplingParams(max_tokens=REPEATING, ignore_eos=True, repetition=RepetitionStop(5, 2)),
}
COPIES = ("pld", "copyspec", "casd", "pld_plus", "pld_plus_a", "logitspec")
NEURAL = ("small_model", "copyspec+small_model", "casd+small_model", "eagle", "copyspec+eagle", "casd+eagle")
ADAPTIVE = ("sdsat", "sdsat_two_step")
UNTRAINED = ("recycling", "lookahead")
NAMED = (*COPIES, *UNTRAINED, *NEURAL, *ADAPTIVE)
HEADED = ("eagle_zero", "eagle_trained")
AUTO = ("auto", "auto_small_model", "auto_head", "auto_recycled", "auto_copies")
DRAFTERS = (*NAMED, *HEADED, "random", "adversarial", *AUTO, "union")
VARIANTS = {"pld_plus_a", *HEADED, "random", *AUTO[1:], "union"}
"""Drafters that are others under other conditions."""
HEADS = ((0, 1), (1, 3))
"""Any heads will do: a wrong ranking costs time and nothing else."""


def letters(ids: object) -> str:
    """A detokenizer for tests: each id is one letter."""
    return "".join(chr(97 + token % 26) for token in ids)  # type: ignore[attr-defined]


@functools.cache
def engine(architecture: str, memory: float) -> Engine:
    """Its draft model agrees often with the target of little memory, and seldom with the other."""
    target = tiny_target(architecture, VOCAB, memory=memory)
    return Engine(target, "plain", [2], letters, equipment_of(target, architecture))


def equipment_of(target: TargetModel, architecture: str = "llama", window: int = 512) -> DrafterContext:
    target.adapters = knowing_adapters(target)
    return DrafterContext(
        draft_model=tiny_target(architecture, VOCAB, window=window, memory=0.0),
        eagle_head=tiny_eagle(target, draft_vocab=50),
        induction_heads=HEADS,
    )


@functools.cache
def prompts() -> tuple[tuple[int, ...], ...]:
    """Prompts of 1 to 60 tokens, most with runs that occur twice."""
    source = random.Random(11)
    made = [(7,), (3, 3, 3)]
    while len(made) < PROMPTS:
        run = [source.randrange(3, VOCAB) for _ in range(source.randint(3, 12))]
        noise = [source.randrange(3, VOCAB) for _ in range(source.randint(0, 30))]
        made.append((*run, *noise, *run, *run[: source.randint(1, len(run))]))
    return tuple(made)


@functools.cache
def plain(
    architecture: str, memory: float, prompt: tuple[int, ...], mode: str, max_tokens: int = MAX_TOKENS
) -> Sequence:
    return decoded(engine(architecture, memory), prompt, params_of(mode, max_tokens), "plain")


def params_of(mode: str, max_tokens: int) -> SamplingParams:
    """A mode's, for answers of so many tokens, or of as many as it needs."""
    return replace(MODES[mode], max_tokens=max(max_tokens, MODES[mode].max_tokens))


class OtherHead(EagleDrafter):
    """With a head of its own: one that says nothing, or one that learned a little."""

    made: ClassVar[dict[object, FittedHead]] = {}

    def __init__(self, make: Callable[[TargetModel], FittedHead]) -> None:
        super().__init__()
        self._make = make

    def setup(self, context: DrafterContext) -> None:
        target = context.target
        assert target is not None
        if (target, self._make) not in self.made:
            head = tiny_eagle(target, scale=0.0) if self._make is tiny_eagle else self._make(target)
            self.made[target, self._make] = head
        super().setup(replace(context, eagle_head=self.made[target, self._make]))


class AutoWithout(AutoDrafter):
    """`auto` where the target has no adapters, and perhaps the engine no head and no draft model."""

    def __init__(self, head: bool, draft_model: bool, recycle: bool) -> None:
        super().__init__()
        self._head, self._draft_model, self._recycle = head, draft_model, recycle

    def setup(self, context: DrafterContext) -> None:
        target = context.target
        assert target is not None
        head = context.eagle_head if self._head else None
        small = context.draft_model if self._draft_model else None
        adapters, target.adapters = target.adapters, None
        try:
            super().setup(replace(context, eagle_head=head, draft_model=small, recycle=self._recycle))
        finally:
            target.adapters = adapters


def build(name: str, answer: list[int], seed: int) -> str | Drafter:
    if name == "random":
        return RandomDrafter(seed, VOCAB)
    if name == "adversarial":
        return AdversarialDrafter(answer, VOCAB, seed)
    if name == "pld_plus_a":
        return PldPlusDrafter("a")
    if name in AUTO[1:]:
        sources = ("auto_head", "auto_small_model", "auto_recycled")
        return AutoWithout(*(name == source for source in sources))
    if name in HEADED:
        return OtherHead(tiny_eagle if name == "eagle_zero" else trained_eagle)
    if name == "union":
        chosen = random.Random(seed).sample([n for n in DRAFTERS if n != "union"], 3)
        parts = (build(part, answer, seed) for part in chosen)
        return UnionDrafter([make_drafter(part) if isinstance(part, str) else part for part in parts])
    return name


def test_each_auto_drafts_with_what_its_name_says() -> None:
    """Masks first, then a head, then a draft model: none of them is left out of the gate unseen."""
    context = engine("llama", 0.0).context
    found: dict[str, tuple[type | None, bool, bool]] = {}
    for name in AUTO:
        drafter = build(name, [], 0)
        made = AutoDrafter() if isinstance(drafter, str) else drafter
        assert isinstance(made, AutoDrafter)
        made.setup(context)
        neural = None if made._neural is None else type(made._neural)
        found[name] = neural, made._masks is not None, made._recycling is not None
    assert found["auto"] == (None, True, False)
    assert found["auto_head"] == (EagleDrafter, False, False)
    assert found["auto_small_model"] == (SmallModelDrafter, False, False)
    assert found["auto_recycled"] == (None, False, True)
    assert found["auto_copies"] == (None, False, False)


def test_every_drafter_takes_part() -> None:
    """A new drafter must pass the lossless gates: add it to `NAMED` and to `build`."""
    assert {"off", "plain", "auto", *NAMED} - {"pld_plus_a"} == set(DRAFTER_NAMES)


def every_gate() -> Iterator[object]:
    """Drafter, mode, architecture. Variants of a drafter take one architecture a mode, by turns, without `--full`."""
    for number, drafter in enumerate(DRAFTERS):
        for place, mode in enumerate(MODES):
            for turn, architecture in enumerate(ARCHITECTURES):
                late = drafter in VARIANTS and (number + place + turn) % 2
                yield pytest.param(drafter, mode, architecture, marks=pytest.mark.full if late else ())


@pytest.mark.parametrize(("drafter", "mode", "architecture"), [*every_gate()])
def test_identical_to_plain(drafter: str, mode: str, architecture: str) -> None:
    """Each mode takes a third of the cases; together they take all."""
    check(drafter, mode, architecture, 3)


@pytest.mark.full
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_identical_to_plain_in_every_case(drafter: str, mode: str, architecture: str) -> None:
    check(drafter, mode, architecture, 1, alone=PROMPTS, max_tokens=LONGER)
    check(drafter, mode, architecture, 1, alone=0, max_tokens=LONGER)


def check(drafter: str, mode: str, architecture: str, share: int, alone: int = 1, max_tokens: int = MAX_TOKENS) -> None:
    """One case in `share`; the first `alone` prompts have their passes to themselves, the others share them."""
    for memory in (1.0, 0.01):
        chosen = [n for n in range(PROMPTS) if not (n + int(memory) + list(MODES).index(mode)) % share]
        params = params_of(mode, max_tokens)
        expected = [plain(architecture, memory, prompts()[n], mode, max_tokens) for n in chosen]
        drafters = [build(drafter, answer.tokens, n) for n, answer in zip(chosen, expected, strict=True)]
        starts = [(prompts()[n], made) for n, made in zip(chosen, drafters, strict=True)]
        shared = engine(architecture, memory)
        found = [decoded(shared, prompt, params, made) for prompt, made in starts[:alone]]
        found += decoded_together(shared, starts[alone:], params)
        for got, answer, (prompt, _) in zip(found, expected, starts, strict=True):
            assert got.tokens == answer.tokens
            assert got.finish_reason == answer.finish_reason
            assert got.cache.length == len(prompt) + len(got.tokens) - 1


def test_the_gate_has_answers_that_repetition_ends() -> None:
    """Such an answer is the beginning of the one without the rule, and most drafts could run past its end."""
    ends = set()
    for architecture in ARCHITECTURES:
        for memory in (1.0, 0.01):
            for prompt in prompts():
                ended = plain(architecture, memory, prompt, "repetition")
                whole = plain(architecture, memory, prompt, "greedy_no_eos", REPEATING)
                assert ended.tokens == whole.tokens[: len(ended.tokens)]
                ends.add((memory, ended.finish_reason))
    assert ends == {(1.0, "length"), (0.01, "repetition")}


def test_the_gate_covers_enough_cases_and_accepts_drafts() -> None:
    assert len(ARCHITECTURES) * len(MODES) * PROMPTS * 2 / 3 >= 200
    accepted = dict.fromkeys(DRAFTERS, 0)
    for drafter in DRAFTERS:
        for number, prompt in enumerate(prompts()):
            expected = plain("llama", 0.01, prompt, "greedy_no_eos")
            got = decoded(
                engine("llama", 0.01),
                prompt,
                MODES["greedy_no_eos"],
                build(drafter, expected.tokens, number),
            )
            accepted[drafter] += got.stats.accepted
    assert all(accepted[name] > 20 for name in (*NAMED, "adversarial")), accepted


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(4))
def test_batches_of_everything_at_once(seed: int, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of all modes and drafters share passes, join late and leave early; each says what it says alone.

    Prompts come in pieces beside the others' trees.
    """
    source = random.Random(seed)
    monkeypatch.setattr("decoder.engine.MIXED_CHUNK", source.randint(1, 20))
    shared = engine(architecture, 0.01)
    waiting: list[tuple[Sequence, Sequence]] = []
    for number, mode in enumerate(MODES):
        prompt = prompts()[(number + seed) % PROMPTS]
        expected = plain(architecture, 0.01, prompt, mode)
        drafter = build(source.choice(DRAFTERS), expected.tokens, number)
        waiting.append((shared.start(prompt, MODES[mode], drafter=drafter), expected))
    everything = list(waiting)
    running: list[Sequence] = []
    while waiting or running:
        while waiting and (not running or source.random() < 0.4):
            joined = waiting.pop()[0]
            running.append(joined)
        source.shuffle(running)
        shared.step(running)
        running = [sequence for sequence in running if not sequence.finished]
    for got, expected in everything:
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason


def test_at_the_end_of_the_window() -> None:
    target = tiny_target("llama", VOCAB, window=48, memory=0.01)
    narrow = Engine(target, "plain", context=equipment_of(target, window=40))
    for size in (1, 20, 47):
        prompt = tuple(3 + i % 5 for i in range(size))
        params = SamplingParams(max_tokens=48 - size)
        expected = decoded(narrow, prompt, params, "plain")
        assert len(expected.tokens) == 48 - size
        for drafter in DRAFTERS:
            assert decoded(narrow, prompt, params, build(drafter, expected.tokens, 1)).tokens == expected.tokens


def test_accepting_a_near_miss_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate can fail: a verifier that accepts whatever was drafted gives other tokens."""
    expected = plain("llama", 1.0, prompts()[4], "greedy_no_eos")

    def accept_anything(self: object, node: int, token: int) -> int | None:
        tree = self
        return next((n for n, p in enumerate(tree.parents) if p == node), None)  # type: ignore[attr-defined]

    monkeypatch.setattr("decoder.drafts.tree.DraftTree.child", accept_anything)
    monkeypatch.setattr("decoder.model.kv_cache.KVCache.keep", _keep_like_accepted)
    got = decoded(engine("llama", 1.0), prompts()[4], MODES["greedy_no_eos"], RandomDrafter(3, VOCAB))
    assert got.tokens != expected.tokens


def test_a_cache_that_keeps_rejected_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {prompt: plain("llama", 1.0, prompt, "greedy_no_eos").tokens for prompt in prompts()}
    monkeypatch.setattr("decoder.model.kv_cache.KVCache.keep", _keep_like_accepted)
    wrong = 0
    for seed, (prompt, answer) in enumerate(expected.items()):
        drafter = AdversarialDrafter(answer, VOCAB, seed)
        wrong += decoded(engine("llama", 1.0), prompt, MODES["greedy_no_eos"], drafter).tokens != answer
    assert wrong > 0


def _keep_like_accepted(cache: object, path: list[int]) -> None:
    """A seeded bug: keeps the first rows of the pass instead of the accepted ones."""
    cache.length += 1 + len(path)  # type: ignore[attr-defined]
    cache.pending = 0  # type: ignore[attr-defined]
