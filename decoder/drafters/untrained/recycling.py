"""`recycling`: Token Recycling (arXiv 2408.08696), section 3.

Every row of a pass, accepted or not, names the 8 best tokens after its own token, which replace those in the matrix
(`learning.successors`). The next pass drafts a fixed tree of successors below the last token. The matrix outlives the
answer: the paper's hot start. The prompt's rows say nothing, since passes compute no logits for them.

The tree is that of the authors' code: 80 nodes on 6 levels, more of them below better ranks. A smaller budget keeps the
nodes of the best ranks. Of a token's rows in one pass, the code keeps any; here an accepted one, or else the last.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

import torch

from decoder.drafters.base import Drafter
from decoder.drafters.best_tokens import best_tokens
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.successors import Successors
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.sequence import Sequence

CHILDREN = (
    (8,),
    (8, 4, 3, 2, 1, 1, 1, 1),
    (8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0),
    (5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0),
    (3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0),
    (2, 0, 0, 1, 0, 0, 0, 0),
)
"""Children of each node of the tree, level by level; the root's are the first. A node's i-th child has rank i."""


def _template() -> list[tuple[int, int]]:
    """(parent, rank) of each node, in falling order of the product of 1 / (rank + 1.5) along the path: in simulation,
    every prefix accepts more than as many nodes breadth first."""
    paths: list[tuple[int, ...]] = []
    level: list[tuple[int, ...]] = [()]
    for counts in CHILDREN:
        level = [(*path, rank) for path, count in zip(level, counts, strict=True) for rank in range(count)]
        paths += level
    paths.sort(key=lambda path: prod(rank + 1.5 for rank in path))
    numbers = {path: node for node, path in enumerate(paths)} | {(): ROOT}
    return [(numbers[path[:-1]], path[-1]) for path in paths]


TEMPLATE = _template()
BEST = max(max(counts) for counts in CHILDREN)
"""k, successors of a token."""


class RecyclingDrafter(Drafter):
    """Drafts the tokens that the model favoured after the same tokens before. It reads raw logits, for sampled answers
    as well.

    Args:
        nodes: most draft tokens.

    Raises:
        ValueError: nodes is out of range.
    """

    name: ClassVar[str] = "recycling"

    def __init__(self, nodes: int = len(TEMPLATE)) -> None:
        if not 1 <= nodes <= len(TEMPLATE):
            raise ValueError(f"nodes must be 1 to {len(TEMPLATE)}, got {nodes}")
        self.nodes = nodes
        self.required_outputs = RequiredOutputs(tree_logits=True)
        self._context = DrafterContext()
        self._successors: Successors | None = None
        self._source = TokenSource(self.name)

    def setup(self, context: DrafterContext) -> None:
        self._context = context

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if sequence.finished:  # the answer may hold only some of the accepted tokens
            return
        root = sequence.suffix(len(accepted.tokens) + 1)[0]
        if outputs.tree_logits is None:  # after prefill
            tokens, best = [root], _best(outputs.logits)
        else:
            tokens, best = [root, *tree.tokens], _best(outputs.tree_logits)
            on_path = [0, *(node + 1 for node in accepted.path)]
            tokens += [tokens[row] for row in on_path]
            best += [best[row] for row in on_path]
        vocab_size = outputs.logits.shape[-1]
        self._successors = self._context.successors.of(sequence.domain, vocab_size, len(best[0]))
        self._successors.update(tokens, best)

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        if self._successors is None:
            return tree
        # A pass yields one token more than it accepts, so a node at depth `remaining` is never used.
        depth = sequence.remaining - 1
        nodes: dict[int, int | None] = {ROOT: ROOT}  # of the template -> of the tree
        after: dict[int, list[int]] = {}  # the successors of each node's token
        for number, (parent, rank) in enumerate(TEMPLATE):
            if len(tree) >= min(self.nodes, budget):
                break
            below = nodes[parent]
            nodes[number] = None
            if below is None or depth <= (0 if below == ROOT else tree.depths[below]):
                continue
            if parent not in after:
                token = sequence.last_token if below == ROOT else tree.tokens[below]
                after[parent] = self._successors.after(token)
            if rank < len(after[parent]):
                nodes[number] = tree.add(after[parent][rank], below, self._source)
        return tree


def _best(logits: torch.Tensor) -> list[list[int]]:
    """The best tokens of each row of logits [rows, V]: [rows, k]."""
    if logits.device.type == "cpu":
        return [best_tokens(row, BEST) for row in logits]
    on_device: list[list[int]] = logits.topk(min(BEST, logits.shape[-1])).indices.tolist()
    return on_device
