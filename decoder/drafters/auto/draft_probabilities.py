"""DraftProbabilities: the tree of a drafter that gives each token a probability, merged with the copies in the trie.

Knows draft trees and numbers; knows no model.
"""

from __future__ import annotations

from bisect import bisect_right

from decoder.drafters.learning.acceptance import LENGTHS
from decoder.drafts.tree import ROOT, DraftTree, TokenSource

UNLIKELY = 1e-3
"""Probability of a token that is not among a node's children."""
CONFIDENCES = (0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Least probability of each confidence bucket but the first."""
Place = int | None
"""A node of a drafter's tree, ROOT, or None outside the tree."""


class DraftProbabilities:
    """One drafter's tree.

    Args:
        tree: with values, the products of the drafter's probabilities from the root.
        proposal_type: index into PROPOSAL_TYPES.

    Attributes:
        chances: each node's probability given its parent.
    """

    def __init__(self, tree: DraftTree, proposal_type: int) -> None:
        self.tree = tree
        self.proposal_type = proposal_type
        self.chances: list[float] = []
        self._below: dict[int, dict[int, tuple[int, float]]] = {}
        for node, (parent, token, value) in enumerate(zip(tree.parents, tree.tokens, tree.values, strict=True)):
            above = 1.0 if parent == ROOT else tree.values[parent]
            self.chances.append(min(value / above, 1.0) if above > 0 else 0.0)
            self._below.setdefault(parent, {})[token] = node, self.chances[node]

    @property
    def source(self) -> TokenSource | None:
        """Of all its tokens; None if it has none."""
        return self.tree.sources[0] if self.tree.sources else None

    def below(self, place: Place) -> dict[int, tuple[int, float]]:
        """token -> (node, probability given its parent) of a place's children, the likeliest first."""
        return {} if place is None else self._below.get(place, {})


def confidence_bucket(confidence: float) -> int:
    """A probability as the "length" of `acceptance.feature_bucket`."""
    return LENGTHS[bisect_right(CONFIDENCES, confidence)]
