"""DraftProbabilities: trees of drafters that give each token a probability, walked together with the copies.

Knows draft trees and numbers; knows no model.
"""

from __future__ import annotations

from bisect import bisect_right

from decoder.drafters.learning.acceptance import LENGTHS
from decoder.drafts.tree import ROOT, DraftTree

UNLIKELY = 1e-3
"""Probability of a token that is not among a node's children."""
_CONFIDENCES = (0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Confidences from which on a bucket counts."""
Place = int | None
"""A node of a drafter's tree, ROOT, or None where the text has left it."""


class DraftProbabilities:
    """One drafter's tree.

    Args:
        tree: with values, the products of the drafter's confidences from the root.
        proposal_type: index into LANES.
    """

    def __init__(self, tree: DraftTree, proposal_type: int) -> None:
        self.tree = tree
        self.proposal_type = proposal_type
        self._below: dict[int, dict[int, tuple[int, float]]] = {}
        for node, (parent, token, value) in enumerate(zip(tree.parents, tree.tokens, tree.values, strict=True)):
            above = 1.0 if parent == ROOT else tree.values[parent]
            self._below.setdefault(parent, {})[token] = node, min(value / above, 1.0) if above > 0 else 0.0

    def below(self, place: Place) -> dict[int, tuple[int, float]]:
        """token -> (node, confidence given that its parent is right) of a place's children, the surest first."""
        return {} if place is None else self._below.get(place, {})


def confidence_bucket(confidence: float) -> int:
    """A confidence as the "length" of `acceptance.feature_bucket`."""
    return LENGTHS[bisect_right(_CONFIDENCES, confidence)]
