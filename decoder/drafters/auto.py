"""`auto`: everything that may come next in one trie, each node with its calibrated chance, the best nodes first.

Candidates from all sources merge: equal prefixes share nodes, sources that agree strengthen each other. A node's value
is the chance that it is accepted: its own times its parent's. Nodes are added in falling order of value, so every
beginning of the tree is the best tree of its size; `decoder.budget` decides how many of them a pass should verify.

What a candidate would have been worth is known as soon as the true tokens are, drafted or not: the table learns from
every candidate along the true path, so it costs nothing to keep an eye on sources that are not used.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import ClassVar

from decoder.acceptance import AcceptanceTable, AcceptanceTables, evidence
from decoder.artifacts import Artifacts
from decoder.copies import Candidate, Copies
from decoder.cost_curve import CostCurve
from decoder.drafters.base import Drafter
from decoder.drafters.equipment import Equipment
from decoder.sequence import Sequence
from decoder.tree import ROOT, DraftTree
from decoder.verify import Accepted

_LEAST = 0.002
"""Nodes of less value are never worth a row, not even of a pass that costs the same with it."""
_HEAT_MEMORY = 0.8
_WARM, _HOT = 0.3, 0.7

Child = tuple[int, int, list[Candidate]]
"""(token, evidence, candidates that propose it, the strongest first)."""
Waiting = list[tuple[float, int, int, int, int, list[Candidate]]]
"""Heap of nodes to add: (-value, order, parent, depth, token, candidates)."""


class AutoDrafter(Drafter):
    """All sources in one valued tree.

    Args:
        matches: most n-gram matches a step.
        longest: most tokens a copy proposes.
        learn: whether the table learns from this sequence.
    """

    name: ClassVar[str] = "auto"
    valued: ClassVar[bool] = True

    def __init__(self, matches: int = 24, longest: int = 64, learn: bool = True) -> None:
        if matches < 1 or longest < 1:
            raise ValueError(f"matches and longest must be at least 1, got {matches} and {longest}")
        self._copies = Copies(matches, longest)
        self._learn = learn
        self._tables = AcceptanceTables()
        self._cost = CostCurve()
        self._warmth = 0.5
        """How much of what was generated lately came from drafts."""
        self._forget()

    def equip(self, equipment: Equipment) -> None:
        self._tables = equipment.acceptance
        self._cost = equipment.cost

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        self._forget()
        tree, waiting = self._tree, self._waiting
        table = self._tables.of(sequence.domain)
        least = max(_LEAST, self._cost.least_value(sequence.pass_tokens, sequence.pass_sequences, budget))
        deepest = sequence.remaining - 1  # a pass yields one token more than it accepts
        self._expand(ROOT, 0, 1.0, self._copies.candidates(sequence), table)
        while waiting and len(tree) < budget:
            falling, _, parent, depth, token, candidates = heappop(waiting)
            if -falling < least:
                break
            best = candidates[0]
            node = tree.add(token, parent, sequence.copy_of(self.name, best.position + depth))
            tree.values.append(-falling)
            self._copied.append(best)
            if depth + 1 < deepest:
                self._expand(node, depth + 1, -falling, candidates, table)
        return tree

    def _expand(self, node: int, depth: int, value: float, candidates: list[Candidate], table: AcceptanceTable) -> None:
        """Queue the children of a node: what its candidates say comes at this depth."""
        heat = (self._warmth >= _WARM) + (self._warmth >= _HOT)
        children = self._children[node] = _children(candidates, depth, heat)
        left = 1.0  # siblings exclude each other
        for token, cell, group in children:
            chance = min(table.probability(cell), left)
            left -= chance
            self._queued += 1
            heappush(self._waiting, (-value * chance, self._queued, node, depth, token, group))

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, artifacts: Artifacts) -> None:
        if self._learn and self._children:
            table = self._tables.of(sequence.domain)
            node = ROOT
            for token in accepted.tokens:
                for proposed, cell, _ in self._children.get(node, ()):
                    table.learn(cell, proposed == token)
                child = self._tree.child(node, token)
                if child is None:
                    break
                node = child
        copied = len(accepted.path)
        committed = len(accepted.tokens)
        if copied:
            source = self._copied[accepted.path[-1]]
            self._copies.follow(source.position + copied, source.length + copied, committed)
        else:
            self._copies.follow(None, 0, committed)
        self._warmth = _HEAT_MEMORY * self._warmth + (1 - _HEAT_MEMORY) * copied / max(committed, 1)
        self._forget()

    def _forget(self) -> None:
        self._tree = DraftTree()
        self._copied: list[Candidate] = []  # of each node
        self._children: dict[int, list[Child]] = {}  # of each node and ROOT
        self._waiting: Waiting = []
        self._queued = 0


def _children(candidates: list[Candidate], depth: int, heat: int) -> list[Child]:
    """Group candidates by the token they have at a depth, in the order of the strongest of each group."""
    if len(candidates) == 1:
        only = candidates[0]
        if depth >= len(only.tokens):
            return []
        return [(only.tokens[depth], evidence(only.length + depth, only.lane, only.kind, 0, 0, heat), candidates)]
    groups: dict[int, list[Candidate]] = {}
    total = 0
    for candidate in candidates:
        if depth < len(candidate.tokens):
            groups.setdefault(candidate.tokens[depth], []).append(candidate)
            total += 1
    children: list[Child] = []
    for rank, (token, group) in enumerate(groups.items()):
        size = len(group)
        if len(groups) == 1:
            agreement = 0 if size == 1 else 1 if size < 4 else 2
        else:
            agreement = 3 if size == 1 else 4 if 2 * size < total else 5
        best = group[0]
        cell = evidence(best.length + depth, best.lane, best.kind, agreement, rank, heat)
        children.append((token, cell, group))
    return children
