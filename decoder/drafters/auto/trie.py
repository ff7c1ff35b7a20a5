"""Trie: candidates merged into one valued draft tree, the best nodes first.

Equal prefixes share nodes, candidates that agree strengthen each other. A node's value is the chance that it is
accepted: its own times its parent's. Nodes are added in falling order of value, so every beginning of the tree is the
best tree of its size.

Knows candidates and the acceptance table; knows no model and no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from decoder.drafters.auto.copies import GUESS, MATCH, NO_PLACE, Candidate
from decoder.drafters.auto.draft_probabilities import UNLIKELY, DraftProbabilities, Place, confidence_bucket
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable, feature_bucket
from decoder.drafts.tree import ROOT, DraftTree, TokenSource

_OWN = KINDS.index("answer")


class _Child(NamedTuple):
    """A token that may come behind a node.

    Attributes:
        bucket: its features, `acceptance.feature_bucket`.
        candidates: those that propose it, the strongest first.
        places: where it is in each drafter's tree.
        similarity, logit_margin, draft_probability: what the model and a drafter show of it, see `Calibrator.chance`.
    """

    token: int
    bucket: int
    candidates: list[Candidate]
    places: tuple[Place, ...] = ()
    similarity: float | None = None
    logit_margin: float | None = None
    draft_probability: float | None = None


class Trie:
    """The tree of one step and what each of its nodes rests on.

    Args:
        candidates: the strongest first.
        table: chances by feature bucket.
        recent_acceptance: how the answer went lately, see `acceptance.feature_bucket`.
        nodes: most nodes.
        depth: most tokens of a branch.
        least: nodes of less value are left out.
        last: the text's last token.
        ends: tokens that end the answer. None is drafted: the pass chooses it without, and nothing comes behind it.
        source_of: the source of a candidate's token at a depth from 0.
        logit_margins: tokens -> their last logits less the chosen token's; None where those are unknown.
        draft_probabilities: trees of drafters that say how sure they are.
    """

    def __init__(
        self,
        candidates: list[Candidate],
        table: AcceptanceTable,
        recent_acceptance: int,
        *,
        nodes: int,
        depth: int,
        least: float,
        last: int,
        ends: frozenset[int],
        source_of: Callable[[Candidate, int], TokenSource],
        logit_margins: Callable[[list[int]], list[float]] | None = None,
        draft_probabilities: Sequence[DraftProbabilities] = (),
    ) -> None:
        self.tree = DraftTree()
        self.led_by: list[Candidate] = []
        """Each node's strongest candidate."""
        self._table = table
        self._recent_acceptance = recent_acceptance
        self._logit_margins = logit_margins
        self._draft_probabilities = draft_probabilities
        self._last = last
        self._ends = ends
        self._children: dict[int, list[_Child]] = {}
        self._waiting: list[tuple[float, int, int, int, _Child]] = []
        self._queued = 0
        if depth >= 1:
            self._expand(ROOT, 0, self._goes_on(last), candidates, (ROOT,) * len(draft_probabilities))
        while self._waiting and len(self.tree) < nodes:
            falling, _, parent, at, child = heappop(self._waiting)
            if -falling < least:
                break
            if child.token in ends:
                continue
            node = self.tree.add(child.token, parent, source_of(child.candidates[0], at))
            self.tree.values.append(-falling)
            self.led_by.append(child.candidates[0])
            if at + 1 < depth:
                self._expand(node, at + 1, -falling * self._goes_on(child.token), child.candidates, child.places)

    def learn(self, tokens: list[int]) -> None:
        """Tell the table what came true of everything proposed along the true tokens, verified or not."""
        if self._ends:
            for token, following in pairwise([self._last, *tokens]):
                self._table.eos_prior.learn(token, following in self._ends)
        node = ROOT
        for at, token in enumerate(tokens):
            if token in self._ends:
                return
            for child in self._children.get(node, ()):
                hit = child.token == token
                if at == 0 and child.candidates[0].proposal_type == GUESS:
                    continue  # see Guesses.learn
                self._table.learn(child.bucket, hit, at, child.similarity, child.logit_margin, child.draft_probability)
            known = self.tree.child(node, token)
            if known is None:
                return
            node = known

    def _goes_on(self, token: int) -> float:
        """Chance that the answer does not end behind a token."""
        return 1.0 - self._table.eos_prior.chance(token) if self._ends else 1.0

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

    def _expand(self, node: int, at: int, value: float, candidates: list[Candidate], places: tuple[Place, ...]) -> None:
        """Queue the children of a node: what candidates and drafters say comes at this depth."""
        children = _children(candidates, at, self._recent_acceptance)
        if at == 0 and self._logit_margins is not None and children:
            logit_margins = self._logit_margins([child.token for child in children])
            children = [
                child._replace(logit_margin=logit_margin)
                for child, logit_margin in zip(children, logit_margins, strict=True)
            ]
        for number, draft_probabilities in enumerate(self._draft_probabilities):
            children = self._believed(children, draft_probabilities, number, places)
        self._children[node] = children
        left = 1.0  # siblings exclude each other
        for child in children:
            chance = min(
                self._table.chance(child.bucket, at, child.similarity, child.logit_margin, child.draft_probability),
                left,
            )
            left -= chance
            self._queued += 1
            heappush(self._waiting, (-value * chance, self._queued, node, at, child))

    def _believed(
        self, children: list[_Child], draft_probabilities: DraftProbabilities, number: int, places: tuple[Place, ...]
    ) -> list[_Child]:
        """The children with what one drafter believes of them, and those that it alone proposes."""
        below = draft_probabilities.below(places[number])
        made = []
        for child in children:
            place, draft_probability = below.get(child.token, (None, UNLIKELY if below else None))
            draft_probability = (
                child.draft_probability
                if draft_probability is None
                else max(draft_probability, child.draft_probability or 0.0)
            )
            made.append(child._replace(places=(*child.places, place), draft_probability=draft_probability))
        known = {child.token for child in children}
        for token, (place, confidence) in below.items():
            if token not in known:
                bucket = feature_bucket(
                    confidence_bucket(confidence),
                    draft_probabilities.proposal_type,
                    _OWN,
                    0,
                    0,
                    self._recent_acceptance,
                )
                alone = [Candidate([token], NO_PLACE, 0, draft_probabilities.proposal_type, _OWN)]
                made.append(_Child(token, bucket, alone, (*(None,) * number, place)))
        return made


def _children(candidates: list[Candidate], at: int, recent_acceptance: int) -> list[_Child]:
    """Group candidates by the token they have at a depth, in the order of the strongest of each group."""
    if len(candidates) == 1:
        only = candidates[0]
        if at >= len(only.tokens):
            return []
        return [
            _Child(
                only.tokens[at],
                _feature_bucket(only, at, 0, 0, recent_acceptance),
                candidates,
                similarity=only.similarity,
            )
        ]
    groups: dict[int, list[Candidate]] = {}
    guesses: list[_Child] = []
    total = 0
    for candidate in candidates:
        if at == 0 and candidate.proposal_type == GUESS:
            guesses.append(
                _Child(candidate.tokens[0], _feature_bucket(candidate, 0, 0, 0, recent_acceptance), [candidate])
            )
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
        alike = max((one.similarity for one in group if one.similarity is not None), default=None)
        children.append(
            _Child(token, _feature_bucket(group[0], at, agreement, rank, recent_acceptance), group, similarity=alike)
        )
    return children + guesses


def _feature_bucket(candidate: Candidate, at: int, agreement: int, rank: int, recent_acceptance: int) -> int:
    length, proposal_type = candidate.length + at, candidate.proposal_type
    if proposal_type == GUESS:  # behind a guess comes what its n-gram matched
        length, proposal_type = (length, MATCH) if at else (candidate.rank, GUESS)
    return feature_bucket(length, proposal_type, candidate.kind, agreement, rank, recent_acceptance)
