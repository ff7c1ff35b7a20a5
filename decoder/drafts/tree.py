"""DraftTree: the tokens that a step proposes. Knows tokens, parents and sources; knows no model and no cache.

Nodes are draft tokens, numbered in the order in which they were added, so `parents[i] < i`. ROOT (-1) is the last
committed token, which every pass computes before the nodes. Equal siblings merge, so the tree is a trie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = -1


class TokenSource(NamedTuple):
    """The source of a draft token.

    Attributes:
        drafter: name of the drafter.
        segment: index into the prompt's segments followed by the corpora; None for the answer itself, and for a
            drafter that does not copy.
        offset: token offset in that segment, or in the answer; None for a drafter that does not copy.
    """

    drafter: str
    segment: int | None = None
    offset: int | None = None


class DraftTree:
    """A trie of draft tokens below the last committed token."""

    __slots__ = ("_children", "depths", "is_chain", "parents", "sources", "tokens", "values")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        """depths[i] >= 1. The root has depth 0, so the position of node i is the root's position + depths[i]."""
        self.sources: list[TokenSource] = []
        self.values: list[float] = []
        """Each node's estimated probability of acceptance, never rising; empty if the drafter does not estimate it."""
        self.is_chain = True
        self._children: dict[tuple[int, int], int] = {}

    @classmethod
    def chain(cls, tokens: Iterable[int], sources: Sequence[TokenSource]) -> DraftTree:
        """A tree of one branch."""
        tree = cls()
        tree.add_chain(tokens, sources)
        return tree

    @classmethod
    def of(
        cls, tokens: list[int], parents: list[int], depths: list[int], sources: list[TokenSource], values: list[float]
    ) -> DraftTree:
        """A tree from its nodes, each after its parent and no two siblings equal; lists as the attributes."""
        tree = cls()
        tree.tokens, tree.parents, tree.depths, tree.sources, tree.values = tokens, parents, depths, sources, values
        tree.is_chain = parents == list(range(ROOT, len(parents) - 1))
        tree._children = dict(zip(zip(parents, tokens, strict=True), range(len(tokens)), strict=True))
        return tree

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: int, parent: int, source: TokenSource) -> int:
        """Add a child below `parent`, a node or ROOT, and return its number; an existing equal child is reused.

        Raises:
            ValueError: `parent` is not in the tree.
        """
        if not ROOT <= parent < len(self.tokens):
            raise ValueError(f"parent {parent} is not a node of this tree of {len(self.tokens)} nodes")
        existing = self._children.get((parent, token))
        if existing is not None:
            return existing
        node = len(self.tokens)
        self.is_chain = self.is_chain and parent == node - 1
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(1 if parent == ROOT else self.depths[parent] + 1)
        self.sources.append(source)
        self._children[parent, token] = node
        return node

    def add_chain(self, tokens: Iterable[int], sources: Sequence[TokenSource], parent: int = ROOT) -> int:
        """Add tokens one below the other, merged with existing nodes; return the last node's number."""
        for token, source in zip(tokens, sources, strict=True):
            parent = self.add(token, parent, source)
        return parent

    def merge(self, other: DraftTree) -> None:
        """Add the nodes of another tree below the same root; existing nodes keep their source."""
        numbers: list[int] = []
        for token, parent, source in zip(other.tokens, other.parents, other.sources, strict=True):
            numbers.append(self.add(token, ROOT if parent == ROOT else numbers[parent], source))

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` (or ROOT) with this token; None if there is none."""
        return self._children.get((node, token))

    def pruned(self, budget: int) -> DraftTree:
        """The tree's first `budget` nodes, which are a tree since parents precede children; self if it fits."""
        if len(self) <= budget:
            return self
        kept = slice(budget)
        return DraftTree.of(
            self.tokens[kept], self.parents[kept], self.depths[kept], self.sources[kept], self.values[kept]
        )

    def mask(self) -> NDArray[np.bool_]:
        """Tree attention mask over root and nodes: bool [n + 1, n + 1], True if the row sees the column.

        Row and column 0 are the root. A node sees the root, its ancestors and itself.
        """
        size = len(self) + 1
        if self.is_chain:
            return np.tri(size, dtype=np.bool_)
        sees = np.zeros((size, size), np.bool_)
        sees[0, 0] = True
        for node, parent in enumerate(self.parents):
            sees[node + 1] = sees[parent + 1]
            sees[node + 1, node + 1] = True
        return sees
