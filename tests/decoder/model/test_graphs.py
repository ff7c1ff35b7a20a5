"""Passes of fixed shape agree with passes without: on a GPU as graphs, on a CPU in Triton's interpreter, uncaptured."""

from __future__ import annotations

import functools
import os
import random
from typing import Any

import pytest
import torch

CUDA = torch.cuda.is_available()
if not CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined
pytest.importorskip("triton", reason="Triton is not installed; torch's builds for GPUs bring it along")

from decoder import Engine, SamplingParams  # noqa: E402
from decoder.drafts.tree import ROOT, DraftTree, TokenSource  # noqa: E402
from decoder.model.forward_outputs import RequiredOutputs  # noqa: E402
from decoder.model.graphs.graphed_passes import GraphedPasses  # noqa: E402
from decoder.model.pass_parts import TreePass  # noqa: E402
from decoder.model.target import TargetModel  # noqa: E402
from tests.support.tiny_models import ARCHITECTURES, RandomDrafter, tiny_model  # noqa: E402

VOCAB = 61
REQUIRED = RequiredOutputs(hidden=frozenset({0, 1}), features=True, queries=frozenset({1}))


@functools.cache
def targets(architecture: str) -> tuple[TargetModel, TargetModel]:
    """The same model with static passes and without, float32."""

    def make(graphs: bool) -> TargetModel:
        model = tiny_model(architecture, VOCAB).float().to("cuda" if CUDA else "cpu")
        return TargetModel(model, graphs=graphs)

    static = make(True)
    if not CUDA:
        static.graphs = GraphedPasses(static.model, static.heads, static.kv_heads, static.head_dim)
    assert static.graphs is not None, static.graphs_problem
    return static, make(False)


def tree_of(source: random.Random, nodes: int) -> DraftTree:
    tree = DraftTree()
    for _ in range(nodes):
        parent = source.choice([ROOT, *range(len(tree))])
        tree.add(source.randrange(VOCAB), parent, TokenSource("test"))
    return tree


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sequences", [1, 3])
def test_passes_agree(architecture: str, sequences: int) -> None:
    """Logits, outputs and caches, for ragged trees over prompts of many lengths, in caches that grow or not."""
    source = random.Random(sequences)
    static, eager = targets(architecture)
    held: list[tuple[Any, Any]] = []
    for nodes in (0, 3, 20):
        parts: list[tuple[TreePass, TreePass]] = []
        for _ in range(sequences):
            prompt = [source.randrange(VOCAB) for _ in range(source.choice([1, 5, 70, 150]))]
            tree = tree_of(source, nodes)
            room = len(prompt) + source.choice([1, 40])
            pair = []
            for target in (static, eager):
                cache = target.new_cache(room)
                target.prefill(prompt, cache)
                pair.append(TreePass(cache, source.randrange(VOCAB), tree, REQUIRED))
            parts.append((pair[0], TreePass(pair[1].cache, pair[0].root, tree, REQUIRED)))
        assert static.graphs is not None
        before = len(static.graphs)
        got = static.forward_tree([one for one, _ in parts])
        expected = eager.forward_tree([other for _, other in parts])
        assert len(static.graphs) >= max(before, 1)
        held += zip(got, expected, strict=True)
        for one, other in parts:
            one.cache.keep_all()
            other.cache.keep_all()
            torch.testing.assert_close(one.cache.rows(), other.cache.rows(), rtol=1e-4, atol=1e-4)
    for mine, right in held:  # after the last pass: no pass overwrites what another gave
        close(mine.logits, right.logits)
        close(mine.features, right.features)
        close(mine.queries[1], right.queries[1])
        for layer in (0, 1):
            close(mine.hidden[layer], right.hidden[layer])


def close(mine: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(mine, right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("drafter", ["pld", "random", *(["plain", "casd", "auto"] if CUDA else [])])
def test_answers_are_those_without_graphs(drafter: str) -> None:
    static, eager = targets("llama")
    source = random.Random(7)
    prompts = [[source.randrange(3, VOCAB) for _ in range(9)] * 3 for _ in range(3)]
    answers = []
    for target in (static, eager):
        engine = Engine(target, "plain", [2])
        sequences = [
            engine.start(
                prompt,
                SamplingParams(max_tokens=32 if CUDA else 6, ignore_eos=True),
                drafter=RandomDrafter(number, VOCAB) if drafter == "random" else drafter,
            )
            for number, prompt in enumerate(prompts)
        ]
        while running := [one for one in sequences if not one.finished]:
            engine.step(running)
        answers.append([one.tokens for one in sequences])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_in_one_launch_round_like_the_stock_ones(dtype: torch.dtype) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    from decoder.model.graphs.rms_norm import fused_norms

    model = torch.nn.Sequential(LlamaRMSNorm(48, eps=1e-5)).to("cuda" if CUDA else "cpu", dtype)
    model.dtype = dtype
    source = torch.Generator().manual_seed(3)
    model[0].weight.data = torch.rand(48, generator=source).to(model[0].weight.device, dtype)
    states = (10 * torch.randn(1, 5, 48, generator=source)).to(model[0].weight.device, dtype)
    with torch.inference_mode():
        stock = model(states)
        with fused_norms(model):
            assert "forward" in vars(model[0])
            fused = model(states)
    assert "forward" not in vars(model[0])
    half = 2**-8 if CUDA else 2**-6  # the interpreter cuts off what bfloat16 cannot hold
    torch.testing.assert_close(fused, stock, rtol=1e-6 if dtype is torch.float32 else half, atol=1e-6)


def test_long_passes_run_in_parts_that_have_a_shape() -> None:
    static, _ = targets("llama")
    assert static.graphs is not None
    parts = [TreePass(static.new_cache(1), 0, DraftTree.chain([0] * n, [TokenSource("test")] * n)) for n in (500, 5, 9)]
    assert [[part.rows for part in group] for group in static.graphs.groups(parts)] == [[501, 6], [10]]
    too_long = TreePass(static.new_cache(1), 0, DraftTree.chain([0] * 512, [TokenSource("test")] * 512))
    assert static.graphs.groups([*parts, too_long]) == []
