"""The budget of a step: how many draft nodes are worth their time. Pure arithmetic.

A pass yields one token a sequence for certain and each node's value on top; it costs what the curve says. The node set
maximises expected tokens per second over all sequences of the pass together, and drafting nothing is always in the
running, so a draft that does not pay is not verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

from decoder.drafts.tree import DraftTree


def choose(trees: Sequence[DraftTree], costs: Sequence[float]) -> list[int]:
    """How many nodes to keep of each tree.

    Args:
        trees: nodes of a valued tree come in falling order of value; trees without values are kept whole.
        costs: seconds of the pass with 0, 1, 2, ... draft nodes in all; as many as the trees have and one more.

    Returns:
        for each tree, the number of its first nodes to verify.
    """
    kept = [len(tree) if not tree.values else 0 for tree in trees]
    ranked = list(merge(*([(-value, number) for value in tree.values] for number, tree in enumerate(trees))))
    nodes = sum(kept)
    expected = float(len(trees))
    best, chosen = expected / costs[nodes], 0
    for more, (falling, _) in enumerate(ranked, 1):
        expected -= falling
        if expected / costs[nodes + more] > best:
            best, chosen = expected / costs[nodes + more], more
    for _, number in ranked[:chosen]:
        kept[number] += 1
    return kept
