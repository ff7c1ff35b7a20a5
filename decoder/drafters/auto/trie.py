"""Trie: candidates merged into one valued draft tree, the best nodes first.

Candidates with equal prefixes share nodes, and candidates that agree strengthen each other. A node's value is the
probability that it is accepted: its own chance times its parent's value. `merge_candidates` adds nodes in falling
order of value, so the first n nodes are the best tree of n (CASD's merged tree, with probabilities for counts).

Knows candidates and the acceptance table; knows no model and no cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from decoder.drafters.auto.copies import GUESS, MATCH, NO_PLACE, Candidate
from decoder.drafters.auto.draft_probabilities import UNLIKELY, DraftProbabilities, Place, confidence_bucket
from decoder.drafters.auto.guesses import Guesses
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable, feature_bucket
from decoder.drafts.tree import ROOT, DraftTree, TokenSource

_ANSWER = KINDS.index("answer")


class Child(NamedTuple):
    """A token that may follow a node.

    Attributes:
        bucket: its features, `acceptance.feature_bucket`.
        candidates: those that propose it, the strongest first.
        place: its node in the neural drafter's tree.
        similarity, logit_margin, draft_probability: evidence of the model and of a drafter, see `Calibrator.chance`.
    """

    token: int
    bucket: int
    candidates: list[Candidate]
    place: Place = None
    similarity: float | None = None
    logit_margin: float | None = None
    draft_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the chances of a step's nodes rest on, besides the candidates.

    Attributes:
        table: chances by feature bucket.
        recent_acceptance: of the answer's last tokens, see `acceptance.feature_bucket`.
        last: the text's last token.
        ends: tokens that end the answer. The tree holds none of them: the pass chooses one without a draft, and no
            token follows it.
        guesses: the last logits; None if they are unknown.
        draft_probabilities: the tree of a drafter that gives probabilities; None if none ran.
    """

    table: AcceptanceTable
    recent_acceptance: int
    last: int
    ends: frozenset[int]
    guesses: Guesses | None = None
    draft_probabilities: DraftProbabilities | None = None

    def continues(self, token: int) -> float:
        """Chance that the answer does not end after a token."""
        return 1.0 - self.table.eos_prior.chance(token) if self.ends else 1.0


class Trie(ABC):
    """The tree of one step and the candidates of each of its nodes."""

    def __init__(self, evidence: Evidence, tree: DraftTree) -> None:
        self.evidence = evidence
        self.tree = tree

    def learn(self, tokens: list[int]) -> None:
        """Teach the table from the true tokens: every child along their path, verified or not."""
        ends, prior = self.evidence.ends, self.evidence.table.eos_prior
        if ends:
            for token, following in pairwise([self.evidence.last, *tokens]):
                prior.learn(token, following in ends)
        self._learn_children(tokens)

    @abstractmethod
    def _learn_children(self, tokens: list[int]) -> None: ...

    @abstractmethod
    def strongest(self, node: int) -> tuple[int, int]:
        """(position, length) of a node's strongest candidate; its position is NO_PLACE if that is no copy."""

    def leading(self, tokens: list[int]) -> tuple[int, int]:
        """`strongest` of the last of the tokens; (NO_PLACE, 0) if there is none or the tree does not hold them all."""
        node = ROOT
        for token in tokens:
            child = self.tree.child(node, token)
            if child is None:
                return NO_PLACE, 0
            node = child
        return (NO_PLACE, 0) if node == ROOT else self.strongest(node)

    def yields(self, tokens: list[int], nodes: int) -> int:
        """Tokens that the step would have yielded with its first `nodes` nodes verified and `tokens` true."""
        node, count = ROOT, 1
        for token in tokens[:-1]:
            child = self.tree.child(node, token)
            if child is None or child >= nodes:
                break
            node, count = child, count + 1
        return count


class CandidateTrie(Trie):
    """A trie of `Candidate`s, the readable version."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence, DraftTree())
        self.candidates: list[Candidate] = []
        """Each node's strongest candidate."""
        self.children: dict[int, list[Child]] = {}
        """Node -> its children, in the tree or not."""

    def _learn_children(self, tokens: list[int]) -> None:
        table, node = self.evidence.table, ROOT
        for depth, token in enumerate(tokens):
            if token in self.evidence.ends:
                return
            for child in self.children.get(node, ()):
                if depth == 0 and child.candidates[0].proposal_type == GUESS:
                    continue  # see Guesses.learn
                accepted = child.token == token
                table.learn(
                    child.bucket, accepted, depth, child.similarity, child.logit_margin, child.draft_probability
                )
            following = self.tree.child(node, token)
            if following is None:
                return
            node = following

    def strongest(self, node: int) -> tuple[int, int]:
        return self.candidates[node].position, self.candidates[node].length


def merge_candidates(
    candidates: list[Candidate],
    evidence: Evidence,
    source_of: Callable[[Candidate, int], TokenSource],
    *,
    nodes: int,
    depth: int,
    least: float,
) -> CandidateTrie:
    """Merge candidates into the tree with the greatest expected number of accepted tokens: best-first search.

    Args:
        candidates: the strongest first.
        source_of: the source of a candidate's token at a depth from 0.
        nodes: most nodes of the tree.
        depth: most tokens of a branch.
        least: nodes of less value stay out.
    """
    trie, table = CandidateTrie(evidence), evidence.table
    frontier: list[tuple[float, int, int, int, Child]] = []  # (-value, order of entry, parent, depth, child)
    entries = 0

    def expand(node: int, at: int, value: float, proposed: list[Candidate], place: Place) -> None:
        """Put the children of a node of this value on the frontier."""
        nonlocal entries
        trie.children[node] = children = _children(proposed, at, place, evidence)
        unclaimed = 1.0  # siblings exclude each other
        for child in children:
            chance = table.chance(child.bucket, at, child.similarity, child.logit_margin, child.draft_probability)
            chance = min(chance, unclaimed)
            unclaimed -= chance
            entries += 1
            heappush(frontier, (-value * chance, entries, node, at, child))

    if depth >= 1:
        expand(ROOT, 0, evidence.continues(evidence.last), candidates, ROOT)
    while frontier and len(trie.tree) < nodes:
        negative_value, _, parent, at, child = heappop(frontier)
        if -negative_value < least:
            break
        if child.token in evidence.ends:
            continue
        strongest = child.candidates[0]
        node = trie.tree.add(child.token, parent, source_of(strongest, at))
        trie.tree.values.append(-negative_value)
        trie.candidates.append(strongest)
        if at + 1 < depth:
            expand(node, at + 1, -negative_value * evidence.continues(child.token), child.candidates, child.place)
    return trie


def _children(candidates: list[Candidate], at: int, place: Place, evidence: Evidence) -> list[Child]:
    """What candidates and a drafter propose at this depth, with all the evidence there is."""
    children = _grouped(candidates, at, evidence.recent_acceptance)
    if at == 0 and evidence.guesses is not None and children:
        margins = evidence.guesses.logit_margins([child.token for child in children], evidence.last).tolist()
        children = [child._replace(logit_margin=margin) for child, margin in zip(children, margins, strict=True)]
    drafted = evidence.draft_probabilities
    below = {} if drafted is None else drafted.below(place)
    if drafted is None or not below:
        return children
    proposed = {child.token for child in children}
    for number, child in enumerate(children):
        node, probability = below.get(child.token, (None, UNLIKELY))
        children[number] = child._replace(place=node, draft_probability=probability)
    for token, (below_node, probability) in below.items():
        if token not in proposed:
            proposal_type, length = drafted.proposal_type, confidence_bucket(probability)
            bucket = feature_bucket(length, proposal_type, _ANSWER, 0, 0, evidence.recent_acceptance)
            children.append(Child(token, bucket, [Candidate([token], NO_PLACE, 0, proposal_type, _ANSWER)], below_node))
    return children


def _grouped(candidates: list[Candidate], at: int, recent_acceptance: int) -> list[Child]:
    """Candidates grouped by their token at a depth, in the order of the strongest of each group; guesses last."""
    if len(candidates) == 1 and at:  # most nodes lie deep in one candidate
        only = candidates[0]
        if at >= len(only.tokens):
            return []
        bucket = _candidate_bucket(only, at, 0, 0, recent_acceptance)
        return [Child(only.tokens[at], bucket, candidates, similarity=only.similarity)]
    groups: dict[int, list[Candidate]] = {}
    guesses: list[Child] = []
    total = 0
    for candidate in candidates:
        if at == 0 and candidate.proposal_type == GUESS:
            bucket = _candidate_bucket(candidate, 0, 0, 0, recent_acceptance)
            guesses.append(Child(candidate.tokens[0], bucket, [candidate]))
        elif at < len(candidate.tokens):
            groups.setdefault(candidate.tokens[at], []).append(candidate)
            total += 1
    children: list[Child] = []
    for rank, (token, group) in enumerate(groups.items()):
        size = len(group)
        if len(groups) == 1:
            agreement = 0 if size == 1 else 1 if size < 4 else 2
        else:
            agreement = 3 if size == 1 else 4 if 2 * size < total else 5
        similarity = max((one.similarity for one in group if one.similarity is not None), default=None)
        bucket = _candidate_bucket(group[0], at, agreement, rank, recent_acceptance)
        children.append(Child(token, bucket, group, similarity=similarity))
    return children + guesses


def _candidate_bucket(candidate: Candidate, at: int, agreement: int, rank: int, recent_acceptance: int) -> int:
    length, proposal_type = candidate.length + at, candidate.proposal_type
    if proposal_type == GUESS:  # after a guess come the tokens that its n-gram matched
        length, proposal_type = (length, MATCH) if at else (candidate.rank, GUESS)
    return feature_bucket(length, proposal_type, candidate.kind, agreement, rank, recent_acceptance)
