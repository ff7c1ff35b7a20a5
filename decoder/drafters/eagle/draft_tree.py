"""EAGLE-2's dynamic draft tree (arXiv 2406.16858, sections 4.1 and 4.2), grown on the head's device.

Expansion: a candidate's value is the product of the confidences from the root. The `top_k` candidates of a level with
the highest value run through the head and get `top_k` children each. Reranking: the `nodes` best of all candidates,
expanded or not, form the tree; it is connected, because a child's value never exceeds its parent's. The paper uses
top-k 10, depth 6 and 60 nodes (the authors' code counts the root among the 60).

The host waits for the device only at the end. Knows the head and rows; knows no sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.heads.head import FittedHead
from decoder.model.kv_cache import KVCache

Adjust = Callable[[torch.Tensor, int], torch.Tensor]
"""(draft logits [rows, draft vocabulary], depth of the tokens they choose, from 1) -> adjusted logits."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a tree.

    Attributes:
        top_k: children of an expanded node, and expanded nodes of a level.
        depth: levels.
        nodes: nodes after reranking.
    """

    top_k: int = 10
    depth: int = 6
    nodes: int = 60


def grow(
    model: FittedHead, state: torch.Tensor, cache: KVCache, shape: Shape, adjust: Adjust | None, source: TokenSource
) -> DraftTree:
    """Draft the tree below the last committed token.

    Args:
        state: [1, D], the head's output for the last committed row.
        cache: the head's, with the rows of all committed pairs; drafted rows are removed at the end.
        adjust: adjusts logits before the confidences are computed.

    Returns:
        at most `shape.nodes` nodes with `values`, in descending order of value.
    """
    length = cache.length
    tokens, scores, parents = [], [], []  # candidates, level by level, [n] each; parents are candidate numbers
    ancestors = torch.zeros(1, 0, dtype=torch.bool, device=model.device)  # [rows, drafted rows before this level]
    reached = torch.zeros(1, device=model.device)  # log value of the rows whose children come next
    numbers = torch.full((1,), ROOT, device=model.device)  # which candidates they are
    states, count = state, 0  # candidates before this level
    for depth in range(1, shape.depth + 1):
        children, confidences = _children(model, states, shape.top_k, adjust, depth)  # [rows, k]
        k = children.shape[1]
        values = reached[:, None] + confidences
        tokens.append(children.flatten())
        scores.append(values.flatten())
        parents.append(numbers.repeat_interleave(k))
        if depth == shape.depth:
            break
        reached, chosen = values.flatten().topk(min(shape.top_k, values.numel()))
        rows = chosen // k
        own = torch.eye(len(chosen), dtype=torch.bool, device=model.device)
        ancestors = torch.cat([ancestors[rows], own], dim=1)
        numbers, count = count + chosen, count + values.numel()
        sees = torch.cat([ancestors.new_ones(len(chosen), length), ancestors], dim=1)
        positions = torch.full_like(chosen, length + depth - 1)
        states = model.run(children.flatten()[chosen], states[rows], positions, cache, sees)
    cache.truncate(length)
    return _best(torch.cat(tokens), torch.cat(parents), torch.cat(scores), shape.nodes, source)


def _children(
    model: FittedHead, states: torch.Tensor, top_k: int, adjust: Adjust | None, depth: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best tokens after each row and the logs of their confidences, [rows, k] each, best first."""
    logits = model.logits(states)
    logits = logits.float() if logits.dtype in {torch.float16, torch.bfloat16} else logits
    if adjust is not None:
        logits = adjust(logits, depth)
    confidences = torch.nan_to_num(logits.log_softmax(-1), nan=float("-inf"))  # a broken head gives NaN
    best, ids = confidences.topk(min(top_k, confidences.shape[-1]))
    return (ids if model.tokens is None else model.tokens[ids]), best.float()


def _best(
    tokens: torch.Tensor, parents: torch.Tensor, scores: torch.Tensor, nodes: int, source: TokenSource
) -> DraftTree:
    """The best candidates as a tree. Ties go to the earlier candidate, so parents come before their children."""
    values, order = scores.sort(descending=True, stable=True)
    order = order[:nodes]
    columns = torch.stack([order, tokens[order], parents[order]]).tolist()
    tree, nodes_by_number = DraftTree(), {ROOT: ROOT}
    for number, token, parent, value in zip(*columns, values[:nodes].exp().tolist(), strict=True):
        if value <= 0.0:
            break
        nodes_by_number[number] = tree.add(token, nodes_by_number[parent], source)
        tree.values.append(value)
    return tree
