"""Tree attention and the cache against fresh forwards (float64, tiny stock models)."""

from __future__ import annotations

import random

import pytest
import torch

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from tests.support.tiny_models import ARCHITECTURES, tiny_model, tiny_target

PROMPT = [5, 9, 17, 33, 8, 5, 9]
HERE = TokenSource("test")


def branch(tree: DraftTree, node: int) -> list[int]:
    tokens: list[int] = []
    while node != ROOT:
        tokens.insert(0, tree.tokens[node])
        node = tree.parents[node]
    return tokens


def random_tree(seed: int, nodes: int) -> DraftTree:
    source = random.Random(seed)
    tree = DraftTree()
    while len(tree) < nodes:
        tree.add(source.randrange(61), source.randint(ROOT, len(tree) - 1), HERE)
    return tree


def fresh_logits(target: TargetModel, ids: list[int]) -> torch.Tensor:
    return target.prefill(ids, target.new_cache(len(ids))).logits[-1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_prefill_equals_the_stock_model(architecture: str) -> None:
    stock = tiny_model(architecture)
    with torch.no_grad():
        expected = stock(torch.tensor([PROMPT])).logits[0, -1]
    torch.testing.assert_close(fresh_logits(tiny_target(architecture), PROMPT), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chunked_prefill_equals_one_piece(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target(architecture)
    expected = fresh_logits(target, PROMPT)
    for size in (1, 2, 3):
        monkeypatch.setattr("decoder.model.target.PREFILL_CHUNK", size)
        torch.testing.assert_close(fresh_logits(target, PROMPT), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tree_logits_equal_each_branch_run_alone(architecture: str) -> None:
    target = tiny_target(architecture)
    for seed, nodes in ((1, 0), (2, 1), (3, 7), (4, 23)):
        tree = random_tree(seed, nodes)
        cache = target.new_cache(64)
        target.prefill(PROMPT[:-1], cache)
        [outputs] = target.forward_tree([TreePass(cache, PROMPT[-1], tree)])
        assert outputs.logits.shape == (nodes + 1, 61)
        for node in range(ROOT, nodes):
            expected = fresh_logits(target, PROMPT + branch(tree, node))
            torch.testing.assert_close(outputs.logits[node + 1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_several_sequences_in_one_pass_equal_single_passes(architecture: str) -> None:
    target = tiny_target(architecture)
    parts, expected = [], []
    for seed in range(4):
        prompt = [(7 * seed + i) % 61 for i in range(3 + 5 * seed)]
        alone, together = target.new_cache(64), target.new_cache(4)  # the second one has to grow
        target.prefill(prompt, alone)
        target.prefill(prompt, together)
        tree = random_tree(seed, 5 * seed)
        expected += target.forward_tree([TreePass(alone, 11, tree)])
        parts.append(TreePass(together, 11, tree))
    for got, alone_artifacts in zip(target.forward_tree(parts), expected, strict=True):
        torch.testing.assert_close(got.logits, alone_artifacts.logits, rtol=0, atol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_cache_after_keep_equals_a_fresh_prefill(architecture: str) -> None:
    target = tiny_target(architecture)
    for seed in range(6):
        tree = random_tree(seed, 12)
        cache = target.new_cache(64)
        target.prefill(PROMPT[:-1], cache)
        target.forward_tree([TreePass(cache, PROMPT[-1], tree)])
        node = random.Random(seed).randrange(12)
        path: list[int] = []
        while node != ROOT:
            path.insert(0, node)
            node = tree.parents[node]
        cache.keep(path)
        ids = PROMPT + [tree.tokens[node] for node in path]
        fresh = target.new_cache(64)
        target.prefill(ids, fresh)
        assert cache.length == fresh.length == len(ids)
        torch.testing.assert_close(cache.rows(), fresh.rows(), rtol=0, atol=1e-10)


def test_mask_lets_a_node_see_root_ancestors_and_itself() -> None:
    tree = DraftTree()
    first = tree.add(1, ROOT, HERE)
    sibling = tree.add(2, ROOT, HERE)
    below = tree.add(3, first, HERE)
    assert tree.mask().tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True, False, True, False],
        [True, True, False, True],
    ]
    assert (sibling, below) == (1, 2)
    assert tree.depths == [1, 1, 2]
    assert not tree.is_chain


def test_equal_prefixes_merge() -> None:
    tree = DraftTree.chain([4, 5, 6], [HERE] * 3)
    tree.add_chain([4, 5, 7], [HERE] * 3)
    assert tree.tokens == [4, 5, 6, 7]
    assert tree.parents == [ROOT, 0, 1, 1]
    assert tree.pruned(3).tokens == [4, 5, 6]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hidden_states_and_queries_are_kept_where_asked_for(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row what the stock model gives for the same tokens; a verify pass's kept rows are those of the path."""
    monkeypatch.setattr("decoder.model.target.PREFILL_CHUNK", 3)
    target = tiny_target(architecture)
    required_outputs = RequiredOutputs(frozenset({0}), frozenset({1}))
    cache = target.new_cache(64)
    prefill = target.prefill(PROMPT, cache, required_outputs)
    tree = random_tree(3, 7)
    path = [0, next(node for node, parent in enumerate(tree.parents) if parent == 0)]
    verified = target.forward_tree([TreePass(cache, 11, tree, required_outputs)])[0]
    kept = verified.along(path)
    text = [*PROMPT, 11, *(tree.tokens[node] for node in path)]
    with torch.no_grad():
        stock = tiny_model(architecture)(torch.tensor([text]), output_hidden_states=True)
    expected = stock.hidden_states[1][0]
    assert set(prefill.hidden) == {0}
    assert set(prefill.queries) == {1}
    torch.testing.assert_close(prefill.hidden[0], expected[: len(PROMPT)], rtol=0, atol=1e-10)
    torch.testing.assert_close(kept.hidden[0], expected[len(PROMPT) :], rtol=0, atol=1e-10)
    torch.testing.assert_close(kept.logits[0], stock.logits[0, -1], rtol=0, atol=1e-10)
    # The last row's query gives the attention it had: softmax against the cached keys is the stock attention row.
    cache.keep(path)
    again = target.prefill(text, target.new_cache(64), required_outputs)
    torch.testing.assert_close(kept.queries[1], again.queries[1], rtol=0, atol=1e-10)
    assert kept.queries[1].shape == (1, 4, 8)
    assert not target.forward_tree([TreePass(cache, 3, DraftTree())])[0].hidden
