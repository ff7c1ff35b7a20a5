"""The node budget of a step: how many draft nodes are worth their time. Arithmetic only.

A pass is expected to yield one token per sequence plus the value of each node, and costs what the cost curve says. The
chosen nodes maximise expected tokens per second over all sequences of the pass. An empty draft is always among the
options, so a draft that does not pay is not verified.
"""

from __future__ import annotations

from collections.abc import Sequence

from decoder.drafts.tree import DraftTree


def choose(trees: Sequence[DraftTree], costs: Sequence[float]) -> list[int]:
    """Choose how many nodes of each tree to verify.

    Args:
        trees: the values of a tree's nodes never rise; trees without values are verified whole.
        costs: seconds of the pass with 0, 1, 2, ... draft nodes in all; one more than the trees have nodes.

    Returns:
        for each tree, the number of its first nodes to verify.
    """
    counts = [len(tree) if not tree.values else 0 for tree in trees]
    ranked = sorted([(-value, number) for number, tree in enumerate(trees) for value in tree.values])
    nodes = sum(counts)
    expected = float(len(trees))
    best_rate, best_size = expected / costs[nodes], 0
    for size, (negative_value, _) in enumerate(ranked, 1):
        expected -= negative_value
        if expected / costs[nodes + size] > best_rate:
            best_rate, best_size = expected / costs[nodes + size], size
    for _, number in ranked[:best_size]:
        counts[number] += 1
    return counts
