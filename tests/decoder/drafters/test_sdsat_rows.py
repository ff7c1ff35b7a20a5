"""Adaptive rows in a pass: ordinary rows are bit for bit what they were, and masks see what they should."""

from __future__ import annotations

import random

import pytest
import torch

from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.adapters import Adapters
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.pass_parts import PromptChunk, TreePass
from decoder.model.target import TargetModel
from tests.support.tiny_models import ARCHITECTURES, tiny_adapters, tiny_model

VOCAB = 61


def random_parts(target: TargetModel, seed: int, masked: bool = True) -> list[TreePass | PromptChunk]:
    """Two sequences with trees and masks, one with a tree alone and a prompt chunk, in any order."""
    source = random.Random(seed)
    parts: list[TreePass | PromptChunk] = []
    for number in range(3):
        cache = target.new_cache(60)
        target.prefill([source.randrange(VOCAB) for _ in range(source.randint(1, 20))], cache)
        tree = DraftTree()
        for _ in range(source.randint(0, 6)):
            tree.add(source.randrange(VOCAB), source.randint(ROOT, len(tree) - 1), TokenSource("test"))
        points = source.sample(range(ROOT, len(tree)), min(len(tree) + 1, 3))
        masks = MaskChains(tuple(points), tuple(source.randint(1, 3) for _ in points)) if number else NO_MASKS
        required_outputs = RequiredOutputs(hidden=frozenset({0, 1}), queries=frozenset({1}))
        parts.append(TreePass(cache, source.randrange(VOCAB), tree, required_outputs, masks if masked else NO_MASKS))
    parts.append(
        PromptChunk(target.new_cache(20), [source.randrange(VOCAB) for _ in range(5)], RequiredOutputs(frozenset({1})))
    )
    source.shuffle(parts)
    return parts


def same(ours: ForwardOutputs, theirs: ForwardOutputs) -> bool:
    return torch.equal(ours.logits, theirs.logits) and all(
        torch.equal(ours.hidden[layer], theirs.hidden[layer]) for layer in ours.hidden
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ordinary_rows_are_bit_identical(architecture: str, dtype: torch.dtype) -> None:
    """To those of a pass of the same shape without adapters, whatever the adapters and the masks say."""
    target = TargetModel(tiny_model(architecture, VOCAB).to(dtype))
    random_adapters = tiny_adapters(target, seed=1, scale=3.0)
    differing = 0
    for seed in range(6):
        made = []
        for adapters in (Adapters(torch.zeros_like(random_adapters.masks)), random_adapters):
            target.adapters = adapters
            made.append(target.forward_tree(random_parts(target, seed)))
        without, with_adapters = made
        for ours, theirs in zip(with_adapters, without, strict=True):
            assert same(ours, theirs)
            if ours.masks is not None and theirs.masks is not None:
                differing += not torch.allclose(ours.masks.states, theirs.masks.states)
    assert differing > 8, "the adapters did act"


def test_an_adapter_that_acts_everywhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(tiny_model("llama", VOCAB))
    target.adapters = tiny_adapters(target)
    expected = target.forward_tree(random_parts(target, 1))
    monkeypatch.setattr("decoder.model.adapters.AdaptiveRows._select", lambda self, rows: rows[0])
    monkeypatch.setattr(
        "decoder.model.adapters.AdaptiveRows._adding",
        lambda self, name: lambda _m, inputs, output: output[0].add_(self._adapters.delta(name, inputs[0][0])),
    )
    got = target.forward_tree(random_parts(target, 1))
    assert not all(same(ours, theirs) for ours, theirs in zip(got, expected, strict=True))


def test_nothing_hooks_a_pass_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetModel(tiny_model("llama", VOCAB))
    target.adapters = tiny_adapters(target)
    hooked: list[object] = []
    monkeypatch.setattr(torch.nn.Module, "register_forward_hook", lambda self, hook: hooked.append(self))
    cache = target.new_cache(8)
    target.prefill([5, 6, 7], cache)
    target.forward_tree([TreePass(cache, 8, DraftTree.chain([1, 2], [TokenSource("t")] * 2))])
    assert not hooked
    monkeypatch.undo()
    target.forward_tree([TreePass(cache, 8, DraftTree(), masks=MaskChains.after([ROOT], 2))])
    assert not any(module._forward_hooks for module in target.model.modules())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_masks_see_their_point_its_past_and_their_own_chain(architecture: str) -> None:
    """Each chain alone behind the committed text of its path comes to the same states."""
    target = TargetModel(tiny_model(architecture, VOCAB))
    target.adapters = tiny_adapters(target, scale=1.0)
    compared = 0
    for seed in range(8):
        parts = random_parts(target, seed)
        for part, made in zip(parts, target.forward_tree(parts), strict=True):
            if not isinstance(part, TreePass) or made.masks is None:
                continue
            for point, length in zip(part.masks.points, part.masks.lengths, strict=True):
                path = path_to(part.tree, point)
                cache = target.new_cache(80)
                cache.take(part.cache)
                text = [part.root, *(part.tree.tokens[node] for node in path)]
                if len(text) > 1:
                    target.prefill(text[:-1], cache)
                slow = alone(target, cache, text[-1], length)
                behind = made.masks.after(path)
                assert behind is not None
                torch.testing.assert_close(behind.states, slow, rtol=1e-9, atol=1e-9)
                compared += 1
    assert compared > 20


def path_to(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node != ROOT:
        path.insert(0, node)
        node = tree.parents[node]
    return path


def alone(target: TargetModel, cache: KVCache, last: int, length: int) -> torch.Tensor:
    """One chain behind the last token, row by row: each mask in a pass of its own, its keys and values kept."""
    assert target.adapters is not None
    point = target.prefill([last], cache, RequiredOutputs(features=True)).features
    assert point is not None
    states = []
    hooks = [
        target.model.get_decoder()
        .get_submodule(name)
        .register_forward_hook(lambda _m, inputs, output, name=name: output + target.adapters.delta(name, inputs[0]))
        for name in target.adapters.pairs
    ]
    embedding = target.model.get_input_embeddings()
    head = target.model.get_output_embeddings()
    kept: list[torch.Tensor] = []
    hooks.append(head.register_forward_pre_hook(lambda _m, inputs: kept.append(inputs[0][0])))
    for number in range(length):
        mask = target.adapters.masks[number]
        hook = embedding.register_forward_hook(lambda _m, _i, output, mask=mask: mask.expand_as(output))
        target.prefill([0], cache)
        hook.remove()
        states.append(kept.pop())
    for hook in hooks:
        hook.remove()
    rows = torch.cat(states)
    return target.adapters.condition_on_points(range(length), rows, point.expand_as(rows))
