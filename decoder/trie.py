"""Trie: candidates merged into one valued draft tree, the best nodes first.

Equal prefixes share nodes, candidates that agree strengthen each other. A node's value is the chance that it is
accepted: its own times its parent's. Nodes are added in falling order of value, so every beginning of the tree is the
best tree of its size.

Knows candidates and the acceptance table; knows no model and no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from decoder.acceptance import AcceptanceTable, evidence
from decoder.copies import Candidate
from decoder.tree import ROOT, DraftTree, TokenSource

_Child = tuple[int, int, list[Candidate]]
"""(token, evidence, candidates that propose it, the strongest first)."""


class Trie:
    """The tree of one step and what each of its nodes rests on.

    Args:
        candidates: the strongest first.
        table: chances by evidence.
        heat: how the answer went lately, see `acceptance.evidence`.
        nodes: most nodes.
        depth: most tokens of a branch.
        least: nodes of less value are left out.
        source_of: the source of a candidate's token at a depth from 0.
    """

    def __init__(
        self,
        candidates: list[Candidate],
        table: AcceptanceTable,
        heat: int,
        *,
        nodes: int,
        depth: int,
        least: float,
        source_of: Callable[[Candidate, int], TokenSource],
    ) -> None:
        self.tree = DraftTree()
        self.led_by: list[Candidate] = []
        """Each node's strongest candidate."""
        self._table = table
        self._heat = heat
        self._children: dict[int, list[_Child]] = {}
        self._waiting: list[tuple[float, int, int, int, int, list[Candidate]]] = []
        self._queued = 0
        self._expand(ROOT, 0, 1.0, candidates)
        while self._waiting and len(self.tree) < nodes:
            falling, _, parent, at, token, group = heappop(self._waiting)
            if -falling < least:
                break
            node = self.tree.add(token, parent, source_of(group[0], at))
            self.tree.values.append(-falling)
            self.led_by.append(group[0])
            if at + 1 < depth:
                self._expand(node, at + 1, -falling, group)

    def learn(self, tokens: list[int]) -> None:
        """Tell the table what came true of everything proposed along the true tokens, verified or not."""
        node = ROOT
        for token in tokens:
            for proposed, cell, _ in self._children.get(node, ()):
                self._table.learn(cell, proposed == token)
            child = self.tree.child(node, token)
            if child is None:
                return
            node = child

    def leading(self, tokens: list[int]) -> Candidate | None:
        """The strongest candidate for the last of the tokens, all of which the tree must hold."""
        node = ROOT
        for token in tokens:
            child = self.tree.child(node, token)
            if child is None:
                return None
            node = child
        return None if node == ROOT else self.led_by[node]

    def yields(self, tokens: list[int], nodes: int) -> int:
        """Tokens a step would have yielded, had the first `nodes` nodes been verified and `tokens` been true."""
        node, count = ROOT, 1
        for token in tokens[:-1]:
            child = self.tree.child(node, token)
            if child is None or child >= nodes:
                break
            node, count = child, count + 1
        return count

    def _expand(self, node: int, at: int, value: float, candidates: list[Candidate]) -> None:
        """Queue the children of a node: what its candidates say comes at this depth."""
        children = self._children[node] = _children(candidates, at, self._heat)
        left = 1.0  # siblings exclude each other
        for token, cell, group in children:
            chance = min(self._table.probability(cell), left)
            left -= chance
            self._queued += 1
            heappush(self._waiting, (-value * chance, self._queued, node, at, token, group))


def _children(candidates: list[Candidate], at: int, heat: int) -> list[_Child]:
    """Group candidates by the token they have at a depth, in the order of the strongest of each group."""
    if len(candidates) == 1:
        only = candidates[0]
        if at >= len(only.tokens):
            return []
        return [(only.tokens[at], evidence(only.length + at, only.lane, only.kind, 0, 0, heat), candidates)]
    groups: dict[int, list[Candidate]] = {}
    total = 0
    for candidate in candidates:
        if at < len(candidate.tokens):
            groups.setdefault(candidate.tokens[at], []).append(candidate)
            total += 1
    children: list[_Child] = []
    for rank, (token, group) in enumerate(groups.items()):
        size = len(group)
        if len(groups) == 1:
            agreement = 0 if size == 1 else 1 if size < 4 else 2
        else:
            agreement = 3 if size == 1 else 4 if 2 * size < total else 5
        best = group[0]
        cell = evidence(best.length + at, best.lane, best.kind, agreement, rank, heat)
        children.append((token, cell, group))
    return children
