"""`eagle`: rows and features in step with the answer, the dynamic tree, noise shared with the target."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ids
from dataclasses import replace
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams, Sequence
from decoder.drafters import make_drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.draft_scores import NoisyDraftLogits
from decoder.drafters.eagle.draft_tree import Shape
from decoder.drafters.eagle.drafter import EagleDrafter
from decoder.drafts.tree import DraftTree
from decoder.errors import DrafterUnavailable
from decoder.generation import Generation
from decoder.heads.head import FittedHead
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.target import TargetModel
from decoder.planning.cost_curve import ROWS, CostCurve
from decoder.sampling.history import History
from decoder.sampling.select import select
from tests.support.models.trained_heads import trained_eagle
from tests.support.tiny_models import ARCHITECTURES, tiny_eagle, tiny_target

VOCAB = 61
PROMPT = [5, 9, 14, 7, 5, 9, 30, 41, 12, 3]
SAMPLED = SamplingParams(max_tokens=30, temperature=1.0, seed=4, ignore_eos=True)
GREEDY = SamplingParams(max_tokens=30, ignore_eos=True)


def engine_of(target: TargetModel, head: FittedHead | None) -> Engine:
    return Engine(target, "plain", context=DrafterContext(eagle_head=head))


def run(engine: Engine, params: SamplingParams, drafter: str | EagleDrafter, prompt: Ids[int] = PROMPT) -> Sequence:
    sequence = engine.start(prompt, params, drafter=drafter)
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


class SlowHead:
    """An EAGLE head read off its paper: no cache, every row computed anew with all rows it sees."""

    def __init__(self, model: FittedHead, target: TargetModel) -> None:
        self.weights = model.head.state_dict()
        self.config = model.head.config
        self.target = target.model
        self.ids = list(range(VOCAB)) if model.tokens is None else model.tokens.tolist()

    def project(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        bias = self.weights.get(f"{name}.bias")
        out: torch.Tensor = rows @ self.weights[f"{name}.weight"].T
        return out if bias is None else out + bias

    def states(self, tokens: Ids[int], features: torch.Tensor) -> torch.Tensor:
        """Rows (feature i, token i), [n, D] -> [n, D]; row i at position i sees rows 0..i."""
        embedded = self.target.get_input_embeddings().weight[torch.tensor(tokens)]
        rows = self.project("fc", torch.cat([embedded, features], dim=1))
        layer, size = "layers.0.self_attn", self.config.hidden_size // self.config.num_attention_heads
        shared = self.config.num_attention_heads // self.config.num_key_value_heads
        queries, keys, values = (
            self.project(f"{layer}.{name}", rows).view(len(rows), -1, size) for name in ("q_proj", "k_proj", "v_proj")
        )
        unseen = torch.ones(len(rows), len(rows), dtype=torch.bool).triu(1)
        mixed = torch.zeros_like(queries)
        for head in range(queries.shape[1]):
            scores = turned(queries[:, head]) @ turned(keys[:, head // shared]).T / math.sqrt(size)
            mixed[:, head] = scores.masked_fill(unseen, float("-inf")).softmax(1) @ values[:, head // shared]
        between = rows + self.project(f"{layer}.o_proj", mixed.flatten(1))
        scale = (between.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps).rsqrt()
        normed = between * scale * self.weights["layers.0.post_attention_layernorm.weight"]
        gate = torch.nn.functional.silu(self.project("layers.0.mlp.gate_proj", normed))
        return between + self.project("layers.0.mlp.down_proj", gate * self.project("layers.0.mlp.up_proj", normed))

    def chances(self, state: torch.Tensor) -> dict[int, float]:
        logits = self.target.get_output_embeddings().weight[torch.tensor(self.ids)] @ state
        return dict(zip(self.ids, logits.softmax(0).tolist(), strict=True))

    def tree(self, tokens: list[int], features: torch.Tensor, shape: Shape) -> dict[tuple[int, ...], float]:
        """EAGLE-2's tree: path -> value; every path's rows run from the start."""
        candidates: dict[tuple[int, ...], float] = {}
        level: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(shape.depth):
            children: dict[tuple[int, ...], float] = {}
            for path, value in level.items():
                drafted = features
                for at in range(len(path)):  # a drafted row's feature is what the row before it came to
                    state = self.states([*tokens, *path[:at]], drafted)[-1:]
                    drafted = torch.cat([drafted, state])
                chances = self.chances(self.states([*tokens, *path], drafted)[-1])
                for token in sorted(chances, key=lambda t: -chances[t])[: shape.top_k]:
                    children[*path, token] = value * chances[token]
            candidates |= children
            level = dict(sorted(children.items(), key=lambda item: -item[1])[: shape.top_k])
        return dict(sorted(candidates.items(), key=lambda item: -item[1])[: shape.nodes])


def turned(rows: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of one head at positions 0, 1, ..., theta 10000. [n, d] -> [n, d]."""
    half = rows.shape[1] // 2
    angles = torch.arange(len(rows))[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    cos, sin = angles.cos().to(rows.dtype), angles.sin().to(rows.dtype)
    first, second = rows[:, :half], rows[:, half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)


def true_features(target: TargetModel, text: list[int]) -> torch.Tensor:
    """[len(text), D], from a pass of its own."""
    features = target.prefill(text, target.new_cache(len(text)), RequiredOutputs(features=True)).features
    assert features is not None
    return features


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


class Watched(EagleDrafter):
    """Holds every draft against the slow head."""

    def __init__(self, slow: SlowHead, target: TargetModel) -> None:
        super().__init__(top_k=3, depth=3, nodes=9)
        self.slow, self.target, self.drafts, self.accepted_before = slow, target, 0, 0

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, budget)
        text = [*sequence.prompt, *sequence.tokens]
        features = true_features(self.target, text)[:-1]
        assert self._state is not None
        torch.testing.assert_close(self._state, self.slow.states(text[1:], features)[-1:], rtol=1e-4, atol=1e-6)
        if self.drafts % 4 == 0:
            shape = replace(self.shape, depth=min(3, sequence.remaining - 1))
            expected = self.slow.tree(text[1:], features, shape)
            assert paths_of(tree) == list(expected)
            assert tree.values == pytest.approx(list(expected.values()), rel=1e-4)
        self.drafts += 1
        return tree


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("draft_vocab", [None, 23])
def test_every_draft_is_the_papers_from_scratch(architecture: str, draft_vocab: int | None) -> None:
    """Over steps that accept some tokens and reject others, the rows kept are those of the true features."""
    target = tiny_target(architecture, memory=0.05)
    head = trained_eagle(target) if draft_vocab is None else tiny_eagle(target, draft_vocab=draft_vocab)
    drafter = Watched(SlowHead(head, target), target)
    sequence = run(engine_of(target, head), replace(GREEDY, max_tokens=20), drafter)
    assert drafter.drafts > 5
    assert draft_vocab is not None or sequence.stats.accepted > 1
    assert sequence.stats.accepted < sequence.stats.drafted


@pytest.mark.parametrize("bug", ["token", "feature"])
def test_pairs_that_are_off_by_one_are_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target(memory=0.2)
    head = tiny_eagle(target)
    catch_up = FittedHead.catch_up

    def shifted(self: FittedHead, tokens: torch.Tensor, features: torch.Tensor, cache: object) -> torch.Tensor:
        if bug == "token":
            tokens = tokens.roll(1)
        else:
            features = features.roll(1, 0)
        return catch_up(self, tokens, features, cache)  # type: ignore[arg-type]

    monkeypatch.setattr(FittedHead, "catch_up", shifted)
    with pytest.raises(AssertionError):
        run(engine_of(target, head), GREEDY, Watched(SlowHead(head, target), target))


def test_drafted_rows_that_stay_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target(memory=0.2)
    head = tiny_eagle(target)
    monkeypatch.setattr("decoder.model.kv_cache.KVCache.truncate", lambda self, length: None)
    with pytest.raises((AssertionError, RuntimeError)):
        run(engine_of(target, head), GREEDY, Watched(SlowHead(head, target), target))


def test_values_fall_and_parents_come_first() -> None:
    target = tiny_target()
    engine = engine_of(target, tiny_eagle(target))
    sequence = engine.start(PROMPT, drafter="eagle")
    engine.prefill(sequence)
    tree = sequence.drafter.draft(sequence, 64)
    assert len(tree) == len(tree.values) == 60
    assert tree.values == sorted(tree.values, reverse=True)
    assert max(tree.depths) <= 6
    assert len(sequence.drafter.draft(sequence, 7)) == 7
    assert sequence.drafter.draft(sequence, 64).tokens == tree.tokens, "asked again it says the same"


def test_nothing_runs_before_the_first_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target()
    engine = engine_of(target, tiny_eagle(target))
    passes: list[int] = []
    inner = FittedHead.run

    def counted(self: FittedHead, tokens: torch.Tensor, *rest: Any) -> torch.Tensor:
        passes.append(len(tokens))
        return inner(self, tokens, *rest)

    monkeypatch.setattr(FittedHead, "run", counted)
    sequence = engine.start(PROMPT, GREEDY, drafter="eagle", max_nodes=0)
    engine.prefill(sequence)
    engine.step([sequence])
    assert passes == []
    assert sequence.drafter.unprocessed(sequence) == len(PROMPT) + 1  # type: ignore[attr-defined]
    sequence.drafter.draft(sequence, 64)
    assert passes == [len(PROMPT) + 1, 10, 10, 10, 10, 10]
    assert sequence.drafter.unprocessed(sequence) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["eagle", "copyspec+eagle", "casd+eagle"])
def test_without_a_head_it_says_so(name: str) -> None:
    engine = engine_of(tiny_target(), None)
    with pytest.raises(DrafterUnavailable, match="RAG_EAGLE_HEAD"):
        engine.start(PROMPT, drafter=name)
    with pytest.raises(DrafterUnavailable, match="cannot replay"):
        make_drafter(name).draft(Generation([1], SamplingParams(), (), make_drafter(name), None, frozenset()), 8)


def test_without_features_of_some_rows_it_drafts_nothing() -> None:
    target = tiny_target()
    engine = engine_of(target, tiny_eagle(target))
    sequence = engine.start(PROMPT, GREEDY, drafter="eagle")
    sequence.drafter.required_outputs = RequiredOutputs()
    answer = run(engine, GREEDY, "plain")
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    assert sequence.stats.drafted == 0
    assert sequence.tokens == answer.tokens


def test_the_published_tree_is_not_cut() -> None:
    """Only drafters that say so let the engine's cost curve cut their trees."""
    target = tiny_target()
    steep = CostCurve({(0, 0): [0.01 * rows for rows in ROWS]})
    engine = Engine(target, "plain", context=DrafterContext(eagle_head=tiny_eagle(target), cost=steep))
    sequence = engine.start(PROMPT, GREEDY, drafter="eagle")
    engine.prefill(sequence)
    engine.step([sequence])
    assert sequence.stats.drafted == 60


def test_copies_come_beside_the_tree() -> None:
    target = tiny_target()
    engine = engine_of(target, tiny_eagle(target))
    sequence = engine.start([5, 9, 14, 7, 8, 40, 41, 5, 9, 14], GREEDY, drafter="casd+eagle")
    engine.prefill(sequence)
    sequence.tokens[-1] = 7
    tree = sequence.drafter.draft(sequence, 64)
    assert {source.drafter for source in tree.sources} == {"casd", "eagle"}
    assert tree.tokens[:2] == [8, 40]


MODES = {
    "plain": SamplingParams(temperature=0.9, seed=3),
    "top_k": SamplingParams(temperature=1.2, top_k=5, seed=3),
    "top_p": SamplingParams(temperature=0.8, top_p=0.7, seed=3),
    "min_p": SamplingParams(temperature=1.5, min_p=0.1, seed=3),
    "penalties": SamplingParams(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3),
    "bias": SamplingParams(logit_bias={4: 3.0, 9: float("-inf")}),
    "everything": SamplingParams(
        temperature=0.7, top_k=20, top_p=0.9, min_p=0.02, repetition_penalty=1.2, logit_bias={7: 2.0}, seed=8, choice=1
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduced", [False, True])
def test_coupled_logits_rank_first_what_select_picks(mode: str, reduced: bool) -> None:
    ids = torch.arange(0, VOCAB, 2) if reduced else None
    generator = torch.Generator().manual_seed(1)
    history = History(PROMPT)
    for position in range(20, 60):
        rows = 2.0 * torch.randn(3, VOCAB, generator=generator, dtype=torch.float64)
        if ids is not None:
            rows[:, 1::2] = float("-inf")
        adjust = NoisyDraftLogits(MODES[mode], position, history, ids, VOCAB)
        best = adjust(rows if ids is None else rows[:, ids], 3).argmax(-1)
        best = best if ids is None else ids[best]
        assert best.tolist() == [select(row, MODES[mode], position + 2, history) for row in rows]


def test_shared_noise_agrees_more_than_noise_of_its_own() -> None:
    target = tiny_target(memory=0.01)
    engine = engine_of(target, trained_eagle(target, 60))
    mats = {}
    for coupling in ("shared", "independent", "none"):
        answers = [
            run(engine, replace(SAMPLED, seed=seed, temperature=3.0), EagleDrafter(3, 3, 4, coupling))
            for seed in range(6)
        ]
        mats[coupling] = sum(len(a.tokens) - 1 for a in answers) / sum(a.stats.steps for a in answers)
    assert mats["shared"] > 1.15 * max(mats["independent"], mats["none"]), mats


def test_options_are_checked() -> None:
    for option in ({"top_k": 0}, {"depth": 0}, {"nodes": 0}, {"coupling": "both"}):
        with pytest.raises(ValueError, match=r"top_k|coupling"):
            EagleDrafter(**option)


def test_a_broken_head_costs_time_and_nothing_else() -> None:
    target = tiny_target()
    head = tiny_eagle(target)
    with torch.no_grad():
        head.head.fc.weight.fill_(float("nan"))
    engine = engine_of(target, head)
    for params in (GREEDY, SAMPLED):
        assert run(engine, params, "eagle").tokens == run(engine, params, "plain").tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_smaller_number_formats(dtype: torch.dtype) -> None:
    target = TargetModel(tiny_target().model.to(dtype))
    sequence = run(engine_of(target, tiny_eagle(target)), GREEDY, "eagle")
    assert len(sequence.tokens) == 30
    assert sequence.stats.drafted > 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    target = TargetModel(tiny_target().model.cuda())
    engine = engine_of(target, tiny_eagle(target, draft_vocab=40))
    for params in (GREEDY, SAMPLED):
        assert run(engine, params, "eagle").tokens == run(engine, params, "plain").tokens


def test_memory_is_told() -> None:
    target = tiny_target()
    context = DrafterContext(eagle_head=tiny_eagle(target, draft_vocab=20))
    Engine(target, "plain", context=context)
    assert context.memory() == {
        "eagle_head": 8 * (32 * 64 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48 + 32 + 20 * 32),
        "eagle_head_cache_per_token": 8 * 2 * 16,
    }
    assert DrafterContext().memory() == {}
