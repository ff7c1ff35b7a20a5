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
from decoder.copies import GUESS, MATCH, Candidate
from decoder.tree import ROOT, DraftTree, TokenSource

_Child = tuple[int, int, list[Candidate]]
"""(token, evidence, candidates that propose it, the strongest first)."""
_Shown = tuple[float | None, float | None]
"""What the model shows of a child: similarity and logit gap, see `Calibrator.chance`."""


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
        gaps: tokens -> their last logits less the chosen token's; None where those are unknown.
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
        gaps: Callable[[list[int]], list[float]] | None = None,
    ) -> None:
        self.tree = DraftTree()
        self.led_by: list[Candidate] = []
        """Each node's strongest candidate."""
        self._table = table
        self._heat = heat
        self._gaps = gaps
        self._children: dict[int, list[tuple[_Child, _Shown]]] = {}
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
        for at, token in enumerate(tokens):
            for (proposed, cell, _), shown in self._children.get(node, ()):
                self._table.learn(cell, proposed == token, at, *shown)
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
        children = _children(candidates, at, self._heat)
        shown = self._shown(children, at)
        self._children[node] = list(zip(children, shown, strict=True))
        left = 1.0  # siblings exclude each other
        for (token, cell, group), signs in zip(children, shown, strict=True):
            chance = min(self._table.chance(cell, at, *signs), left)
            left -= chance
            self._queued += 1
            heappush(self._waiting, (-value * chance, self._queued, node, at, token, group))

    def _shown(self, children: list[_Child], at: int) -> list[_Shown]:
        similar = [
            max((c.similarity for c in group if c.similarity is not None), default=None) for _, _, group in children
        ]
        if at or self._gaps is None or not children:
            return [(similarity, None) for similarity in similar]
        return list(zip(similar, self._gaps([token for token, _, _ in children]), strict=True))


def _children(candidates: list[Candidate], at: int, heat: int) -> list[_Child]:
    """Group candidates by the token they have at a depth, in the order of the strongest of each group."""
    if len(candidates) == 1:
        only = candidates[0]
        if at >= len(only.tokens):
            return []
        return [(only.tokens[at], _evidence(only, at, 0, 0, heat), candidates)]
    groups: dict[int, list[Candidate]] = {}
    guesses: list[_Child] = []
    total = 0
    for candidate in candidates:
        if at == 0 and candidate.lane == GUESS:
            guesses.append((candidate.tokens[0], _evidence(candidate, 0, 0, 0, heat), [candidate]))
        elif at < len(candidate.tokens):
            groups.setdefault(candidate.tokens[at], []).append(candidate)
            total += 1
    children: list[_Child] = []
    for rank, (token, group) in enumerate(groups.items()):
        size = len(group)
        if len(groups) == 1:
            agreement = 0 if size == 1 else 1 if size < 4 else 2
        else:
            agreement = 3 if size == 1 else 4 if 2 * size < total else 5
        children.append((token, _evidence(group[0], at, agreement, rank, heat), group))
    return children + guesses


def _evidence(candidate: Candidate, at: int, agreement: int, rank: int, heat: int) -> int:
    length, lane = candidate.length + at, candidate.lane
    if lane == GUESS:  # behind a guess comes what its n-gram matched
        length, lane = (length, MATCH) if at else (candidate.rank, GUESS)
    return evidence(length, lane, candidate.kind, agreement, rank, heat)
