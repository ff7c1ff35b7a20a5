"""`sdsat`: adaptive rows change no answer and no ordinary row, see what they should, and are never kept."""

from __future__ import annotations

import functools
import random

import pytest
import torch

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters import make_drafter
from decoder.drafters.base import Drafter
from decoder.drafters.casd import CasdDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.sdsat.drafter import SdsatDrafter, SdsatTwoStepDrafter
from decoder.drafters.sdsat.mask_tree import MaskGuesses
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import MaskChains
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.errors import DrafterUnavailable
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from decoder.sampling.near_ties import THRESHOLDS
from tests.support.tiny_models import (
    ARCHITECTURES,
    RandomDrafter,
    UnionDrafter,
    UnsteadyTarget,
    decoded,
    tiny_adapters,
    tiny_model,
)

VOCAB = 61
PROMPTS = 6
MAX_TOKENS = 24
MODES: dict[str, SamplingParams] = {
    "greedy": SamplingParams(max_tokens=MAX_TOKENS),
    "greedy_no_eos": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True),
    "penalties": SamplingParams(max_tokens=MAX_TOKENS, repetition_penalty=1.2, presence_penalty=0.3),
    "bias": SamplingParams(max_tokens=MAX_TOKENS, logit_bias={2: 3.0, 5: float("-inf"), 7: 1.5}),
    "one_token_possible": SamplingParams(
        max_tokens=9, logit_bias={token: float("-inf") for token in range(VOCAB) if token != 33}
    ),
    "temperature": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, seed=1),
    "hot": SamplingParams(max_tokens=MAX_TOKENS, temperature=3.0, seed=2, ignore_eos=True),
    "top_k": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.0, top_k=4, seed=3),
    "nucleus": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.0, top_k=10, top_p=0.95, seed=4),
    "min_p": SamplingParams(max_tokens=MAX_TOKENS, temperature=1.2, min_p=0.1, seed=5),
    "all": SamplingParams(
        max_tokens=MAX_TOKENS,
        temperature=0.9,
        top_k=20,
        top_p=0.9,
        min_p=0.02,
        repetition_penalty=1.1,
        frequency_penalty=0.1,
        logit_bias={3: 1.0, 9: float("-inf")},
        seed=6,
        choice=2,
    ),
    "stop_string": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.7, seed=7, stop=("ab", "q", "xyz")),
    "stop_token": SamplingParams(max_tokens=MAX_TOKENS, stop_token_ids=(9, 10, 11, 12)),
    "short": SamplingParams(max_tokens=3, ignore_eos=True),
    "strict": SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, exact="strict"),
    "strict_sampled": SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, top_p=0.9, seed=8, exact="strict"),
}
WEIGHTS = {"random": 1.0, "small": 0.05, "zeroed": 0.0}


def letters(ids: object) -> str:
    return "".join(chr(97 + token % 26) for token in ids)  # type: ignore[attr-defined]


@functools.cache
def engine(architecture: str, weights: str, near_tie: float | None = None) -> Engine:
    target = TargetModel(tiny_model(architecture, VOCAB, memory=0.3))
    target.adapters = tiny_adapters(target, seed=3, scale=WEIGHTS[weights])
    return Engine(target, "plain", [2], letters, near_tie=near_tie)


@functools.cache
def prompts() -> tuple[tuple[int, ...], ...]:
    source = random.Random(5)
    made = [(7,)]
    while len(made) < PROMPTS:
        run = [source.randrange(3, VOCAB) for _ in range(source.randint(2, 9))]
        made.append((*run, *(source.randrange(3, VOCAB) for _ in range(source.randint(0, 20))), *run))
    return tuple(made)


@functools.cache
def plain(architecture: str, prompt: tuple[int, ...], mode: str) -> Sequence:
    return decoded(engine(architecture, "random"), prompt, MODES[mode], "plain")


def drafters(number: int) -> dict[str, Drafter]:
    """Wide trees, so that untrained masks are right now and then."""
    wide = {"nodes": 16, "branches": 8, "points": 12, "least": 0.0}
    return {
        "one_pass": SdsatDrafter(**wide),  # type: ignore[arg-type]
        "two_step": SdsatTwoStepDrafter(**wide),  # type: ignore[arg-type]
        "narrow": SdsatDrafter(length=2, nodes=2, branches=1, points=1),
        "beside": CasdDrafter(partner=SdsatDrafter()),
        "among": UnionDrafter([SdsatDrafter(nodes=20, branches=10), RandomDrafter(number, VOCAB)]),
    }


CASES = [
    *((mode, "random", architecture) for mode in MODES for architecture in ARCHITECTURES),
    *((mode, weights, "llama") for mode in ("greedy", "nucleus") for weights in ("small", "zeroed")),
]


@pytest.mark.parametrize(("mode", "weights", "architecture"), CASES)
def test_identical_to_plain(mode: str, weights: str, architecture: str) -> None:
    near_tie = 0.3 if mode.startswith("strict") else None
    for number, prompt in enumerate(prompts()):
        expected = plain(architecture, prompt, mode)
        for at, drafter in enumerate(drafters(number).values()):
            if (at + number + list(MODES).index(mode)) % 3:
                continue
            got = decoded(engine(architecture, weights, near_tie), prompt, MODES[mode], drafter)
            assert got.tokens == expected.tokens
            assert got.finish_reason == expected.finish_reason
            assert got.cache.length == len(prompt) + len(got.tokens) - 1


def test_drafts_are_accepted_and_every_pass_counts() -> None:
    for name, drafter in drafters(0).items():
        accepted = steps = tokens = 0
        for prompt in prompts():
            got = decoded(engine("llama", "small"), prompt, MODES["greedy_no_eos"], drafter).stats
            accepted, steps, tokens = accepted + got.accepted, steps + got.steps, tokens + got.tokens - 1
        assert accepted == tokens - steps, "each pass yields one token and what it accepts"
        assert accepted > (0 if name == "narrow" else 5), name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(3))
def test_batches_mixed_with_other_drafters(seed: int, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences with and without masks, and prompts in pieces, share passes; each says what it says alone."""
    source = random.Random(seed)
    monkeypatch.setattr("decoder.engine.MIXED_CHUNK", source.randint(1, 20))
    shared = engine(architecture, "random")
    waiting: list[tuple[Sequence, Sequence]] = []
    for number, mode in enumerate(MODES):
        prompt = prompts()[(number + seed) % PROMPTS]
        named: list[str | Drafter] = ["plain", "pld", "auto", "sdsat", "sdsat_two_step", *drafters(number).values()]
        sequence = shared.start(prompt, MODES[mode], drafter=source.choice(named))
        waiting.append((sequence, plain(architecture, prompt, mode)))
    everything, running = list(waiting), []
    while waiting or running:
        while waiting and (not running or source.random() < 0.5):
            running.append(waiting.pop()[0])
        source.shuffle(running)
        shared.step(running)
        running = [sequence for sequence in running if not sequence.finished]
    for got, expected in everything:
        assert got.tokens == expected.tokens
        assert got.finish_reason == expected.finish_reason


def path_to(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node != ROOT:
        path.insert(0, node)
        node = tree.parents[node]
    return path


def test_masks_are_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache after an answer is that of the tokens alone; one that keeps a mask's row gives other answers."""
    for drafter in drafters(1).values():
        got = decoded(engine("llama", "random"), prompts()[3], MODES["greedy_no_eos"], drafter)
        target = engine("llama", "random").target
        cache = target.new_cache(80)
        target.prefill([*prompts()[3], *got.tokens[:-1]], cache)
        torch.testing.assert_close(got.cache.rows(), cache.rows(), rtol=1e-9, atol=1e-9)
    keep = KVCache.keep

    def keeps_a_mask(cache: KVCache, path: list[int]) -> None:
        spare = cache.pending
        keep(cache, path)
        cache.length += spare > 4

    monkeypatch.setattr(KVCache, "keep", keeps_a_mask)
    expected = plain("llama", prompts()[3], "greedy_no_eos").tokens
    got = decoded(engine("llama", "random"), prompts()[3], MODES["greedy_no_eos"], drafters(1)["one_pass"])
    assert got.tokens != expected


def test_masks_that_ordinary_rows_see_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = MaskChains.mask

    def leaking(self: MaskChains, tree: DraftTree) -> object:
        sees = mask(self, tree)
        sees[: len(tree) + 1, -1] = True
        return sees

    monkeypatch.setattr(MaskChains, "mask", leaking)
    wrong = 0
    for prompt in prompts():
        got = decoded(engine("llama", "random"), prompt, MODES["greedy_no_eos"], "sdsat")
        wrong += got.tokens != plain("llama", prompt, "greedy_no_eos").tokens
    assert wrong


class Watched(SdsatDrafter):
    """Notes, before each pass, the tree and the masks."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.passes: list[tuple[DraftTree, MaskChains]] = []

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        wanted = super().masks(sequence, tree)
        self.passes.append((tree, wanted))
        return wanted


def test_one_pass_drafts_and_verifies_in_every_pass_behind_the_first() -> None:
    watched = Watched(nodes=4, points=99)
    watched.least = 0.0
    decoded(engine("llama", "small"), prompts()[2], MODES["greedy_no_eos"], watched)
    assert len(watched.passes[0][0]) == 0, "nothing behind the prompt to draft from"
    assert watched.passes[0][1] == MaskChains.after([ROOT], 3)
    for tree, masks in watched.passes[1:-4]:
        assert len(tree) == 4
        assert set(masks.points) == {ROOT, *range(4)}


def test_two_steps_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[bool, int]] = []
    forward = TargetModel.forward_tree

    def noting(target: TargetModel, batch: list[TreePass]) -> list[ForwardOutputs]:
        shapes.extend((len(part.tree) > 0, len(part.masks)) for part in batch)
        return forward(target, batch)

    shared = engine("llama", "small")
    sequence = shared.start(prompts()[2], MODES["greedy_no_eos"], drafter="sdsat_two_step")
    shared.prefill(sequence)
    monkeypatch.setattr(TargetModel, "forward_tree", noting)
    while sequence.remaining > 6:
        shared.step([sequence])
    assert shapes[0::2] == [(False, 3)] * len(shapes[0::2])
    assert shapes[1::2] == [(True, 0)] * len(shapes[1::2])
    assert sequence.stats.steps == len(shapes)


def test_trees_are_valued_best_first() -> None:
    """The chosen nodes are the best of all paths, and their values the products of their chances."""
    shared = engine("llama", "small")
    for params in (MODES["greedy_no_eos"], MODES["all"], MODES["penalties"]):
        drafter = SdsatDrafter(nodes=12, branches=3, least=0.0)
        sequence = shared.start(prompts()[2], params, drafter=drafter)
        shared.prefill(sequence)
        shared.step([sequence])
        tree = drafter.draft(sequence, 64)
        assert tree.values == sorted(tree.values, reverse=True)
        assert drafter._rows is not None
        every = sorted(
            paths(sequence, MaskGuesses(shared.target, drafter._rows.states, sequence.last_token), 3), reverse=True
        )
        assert len(tree) == min(12, len(every)) > 2
        ours = []
        for node, value in enumerate(tree.values):
            ours.append((value, [tree.tokens[step] for step in path_to(tree, node)]))
        assert [path for _, path in sorted(ours, reverse=True)] == [path for _, path in every[:12]]
        for (mine, _), (slow, _) in zip(sorted(ours, reverse=True), every, strict=False):
            assert mine == pytest.approx(slow)


def paths(sequence: Sequence, guesses: MaskGuesses, branches: int) -> list[tuple[float, list[int]]]:
    found: list[tuple[float, list[int]]] = []
    waiting: list[tuple[float, list[int]]] = [(1.0, [])]
    while waiting:
        value, path = waiting.pop()
        if len(path) == len(guesses):
            continue
        history = sequence.history.copy()
        for token in path:
            history.push(token)
        before = path[-1] if path else sequence.last_token
        place = len(path), before, sequence.params, sequence.position + len(path), history, branches
        more = [(value * chance, [*path, token]) for chance, token in guesses.best(*place)]
        found += more
        waiting += more
    return found


def test_masks_go_where_the_walk_is_likeliest_to_end() -> None:
    shared = engine("llama", "random")
    drafter = SdsatDrafter(points=2, least=0.05)
    sequence = shared.start(prompts()[2], MODES["greedy_no_eos"], drafter=drafter)
    tree = DraftTree.chain([1, 2, 3], [TokenSource("t")] * 3)
    tree.add(4, ROOT, TokenSource("t"))
    tree.values = [0.9, 0.85, 0.2, 0.03]  # ends: root 0.07, then 0.05, 0.65, 0.2, 0.03
    assert drafter.masks(sequence, tree).points == (1, 2)
    drafter.points = 9
    assert drafter.masks(sequence, tree).points[:3] == (1, 2, ROOT)
    assert 3 not in drafter.masks(sequence, tree).points
    assert drafter.masks(sequence, DraftTree()).points == (ROOT,)


def test_masks_stay_inside_the_window() -> None:
    for window in (40, 41, 42, 43):
        target = TargetModel(tiny_model("llama", VOCAB, window=window))
        target.adapters = tiny_adapters(target)
        narrow = Engine(target, "plain")
        prompt = prompts()[2][:20]
        params = SamplingParams(max_tokens=window - len(prompt), ignore_eos=True)
        expected = decoded(narrow, prompt, params, "plain").tokens
        assert decoded(narrow, prompt, params, "sdsat").tokens == expected
    chains = MaskChains((ROOT, 1), (3, 3))
    tree = DraftTree.chain([1, 2], [TokenSource("t")] * 2)
    assert chains.within(tree, 4) == MaskChains((ROOT, 1), (3, 2))
    assert chains.within(tree, 2) == MaskChains((ROOT,), (2,))


def test_a_cache_grows_for_masks() -> None:
    """A small node budget plans a small cache; many masks outgrow it in the middle of a pass."""
    shared = engine("llama", "small")
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    sequence = shared.start(prompts()[2], params, drafter=drafters(0)["one_pass"], max_nodes=4)
    planned = sequence.cache.capacity
    shared.prefill(sequence)
    while not sequence.finished:
        shared.step([sequence])
    assert sequence.cache.capacity > planned
    assert sequence.tokens == decoded(shared, prompts()[2], params, "plain").tokens


def test_the_gate_of_masks_is_told_what_reading_them_took(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Engine(engine("llama", "random").target, "plain", [2], letters)
    told: list[float] = []
    ran = shared.context.mask_gate.ran

    def spy(promised: float, added: int, seconds: float, behind: int = 0) -> None:
        told.append(seconds)
        ran(promised, added, seconds, behind)

    monkeypatch.setattr(shared.context.mask_gate, "ran", spy)
    decoded(shared, prompts()[0], MODES["greedy_no_eos"], "auto")
    assert told
    assert all(seconds > 0 for seconds in told)


def test_a_strict_answer_decides_near_ties_without_masks() -> None:
    target = UnsteadyTarget(tiny_model("llama", VOCAB, memory=0.3), noise=0.1)
    target.adapters = tiny_adapters(target, seed=3)
    steady = engine("llama", "random")
    unsteady = Engine(target, "plain", [2], near_tie=0.25)
    params = SamplingParams(max_tokens=40, ignore_eos=True, exact="strict")
    extra = 0
    for prompt in prompts():
        expected = decoded(steady, prompt, SamplingParams(max_tokens=40, ignore_eos=True), "plain").tokens
        got = decoded(unsteady, prompt, params, "sdsat")
        assert got.tokens == expected
        extra += got.stats.extra_passes
    assert extra > 0
    assert THRESHOLDS[torch.float64] < 0.25


def test_without_adapters_it_says_so() -> None:
    bare = Engine(TargetModel(tiny_model("llama", VOCAB)), "plain")
    for name in ("sdsat", "sdsat_two_step"):
        with pytest.raises(DrafterUnavailable, match="RAG_SDSAT_ADAPTERS"):
            bare.start([1, 2], drafter=name)
        with pytest.raises(DrafterUnavailable, match="recordings do not"):
            make_drafter(name).setup(DrafterContext())
    with pytest.raises(DrafterUnavailable, match="3 masks, not for 4"):
        engine("llama", "random").start([1, 2], drafter=SdsatDrafter(length=4))
    with pytest.raises(ValueError, match="adapters"):
        bare.target.forward_tree(
            [TreePass(bare.target.new_cache(9), 1, DraftTree(), masks=MaskChains.after([ROOT], 1))]
        )
    for wrong in ({"length": 0}, {"nodes": 0}, {"least": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            SdsatDrafter(**wrong)  # type: ignore[arg-type]


def test_a_draft_made_for_another_position_is_not_used() -> None:
    shared = engine("llama", "random")
    drafter = SdsatDrafter()
    sequence = shared.start(prompts()[2], MODES["greedy_no_eos"], drafter=drafter)
    shared.prefill(sequence)
    assert not drafter.ready(sequence)
    shared.step([sequence])
    assert drafter.ready(sequence)
    assert len(drafter.draft(sequence, 64)) > 0
    assert len(drafter.draft(sequence, 1)) == 1
    drafter.observe(sequence, DraftTree(), Accepted([1], [], [None]), ForwardOutputs(torch.zeros(1, VOCAB)))
    assert len(drafter.draft(sequence, 64)) == 0
