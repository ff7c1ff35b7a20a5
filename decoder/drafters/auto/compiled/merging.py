"""Merging and learning, compiled: the acceptance table, the calibrator, `merge_candidates` and `Trie.learn` over
arrays. None in Python is NaN here.

Every sum and product is that of the readable version, in its order, so that chances are equal to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.auto import draft_probabilities as drafts_of
from decoder.drafters.auto import guesses as guesses_of
from decoder.drafters.auto.copies import GUESS, MATCH
from decoder.drafters.learning import acceptance, calibrator, eos_prior
from decoder.drafts.tree import ROOT
from decoder.jit import jit
from decoder.sequence import CORPUS_OFFSET

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]
Counts = tuple[Floats, Floats, Floats, Floats, Floats]
"""A table's arrays: accepted, observed, estimates; the calibrator's weights and similarities."""

Tree = tuple[Ints, Floats, Ints, Ints, Floats]
"""nodes, values: int64 [6, most nodes] and float64 [most nodes], the nodes and their values; spans, children, proofs:
int64 [most nodes + 1, 2], int64 [n, 4] and float64 [n, 3], each node's first child and the one after its last, and the
children with their evidence. The root is last of `spans`."""

FIRST, POSITION, LENGTH, TYPE, KIND, RANK, SIZE = range(7)
"""Columns of a candidate, as in `lookup`."""
TOKEN, PARENT, DEPTH, STRONGEST, SEGMENT, OFFSET = range(6)
"""Rows of the tree's nodes. SEGMENT, OFFSET: as `TokenSource`, -1 for None."""
CHILD_TOKEN, BUCKET, CANDIDATE, DRAFTED = range(4)
"""Columns of a node's children. CANDIDATE: the strongest, or -1 if only a drafter proposes it; DRAFTED: its node there,
ROOT, or OUTSIDE."""
SIMILARITY, MARGIN, DRAFT_PROBABILITY = range(3)
OUTSIDE = -2

_ANSWER = acceptance.KINDS.index("answer")
_LENGTH_BUCKET = np.array(acceptance.LENGTH_BUCKET)
_LENGTHS = np.array(acceptance.LENGTHS)
_LONGEST = acceptance.LONGEST
_KINDS, _AGREEMENTS, _TYPES = len(acceptance.KINDS), len(acceptance.AGREEMENTS), len(acceptance.PROPOSAL_TYPES)
_RANKS, _RECENT = acceptance.RANKS, acceptance.RECENT_LEVELS
_SECOND, _THIRD, _FOURTH, _FINEST = acceptance.FIRST_CELLS[1:]
_PRIOR, _START, _MOST = acceptance.PRIOR, acceptance.START, acceptance.MOST
_EOS_PRIOR = eos_prior.PRIOR
_FAR, _RATE, _WIDEST, _LEAST_ESTIMATE = calibrator.FAR, calibrator.RATE, calibrator.WIDEST, calibrator.LEAST_ESTIMATE
_KNOWN_AFTER, _MEMORY = calibrator.KNOWN_AFTER, calibrator.MEMORY
_MARGIN_MEAN, _MARGIN_SPREAD, _FEATURES = calibrator.MARGIN_MEAN, calibrator.MARGIN_SPREAD, calibrator.FEATURES
_UNLIKELY = drafts_of.UNLIKELY
_CONFIDENCES = np.array(drafts_of.CONFIDENCES)
_GUESSES = guesses_of.MOST

CONSTANTS = "424cbbd77fb0"
"""The digest of those that come from other files, and of its own; a test computes it (see `jit.py`)."""


@jit
def _bucket(length: int, proposal_type: int, kind: int, agreement: int, rank: int, recent: int) -> int:
    """`feature_bucket`."""
    bucket = _LENGTH_BUCKET[min(length, _LONGEST)] * _RECENT + recent
    bucket = bucket * _RANKS + min(rank, _RANKS - 1)
    return ((bucket * _TYPES + proposal_type) * _AGREEMENTS + agreement) * _KINDS + kind  # type: ignore[no-any-return]


@jit
def _levels(bucket: int, cells: Ints) -> None:
    """The cells of a bucket's averages, from coarse to fine, into `cells` [5]."""
    rest, agreement = divmod(bucket // _KINDS, _AGREEMENTS)
    rest, proposal_type = divmod(rest, _TYPES)
    rest, rank = divmod(rest, _RANKS)
    length, recent = divmod(rest, _RECENT)
    cells[0] = length * _RANKS + rank
    cells[1] = cells[0] * _TYPES + proposal_type
    cells[2] = cells[1] * _AGREEMENTS + agreement
    cells[3] = _FOURTH + cells[2] * _RECENT + recent
    cells[1] += _SECOND
    cells[2] += _THIRD
    cells[4] = _FINEST + bucket


@jit
def _probability(counts: Counts, bucket: int) -> float:
    """`AcceptanceTable.probability`."""
    accepted, observed, estimates, _, _ = counts
    estimate = estimates[bucket]
    if estimate == 0.0:
        estimate, cells = _START, np.empty(5, np.int64)
        _levels(bucket, cells)
        for cell in cells:
            estimate = (accepted[cell] + _PRIOR * estimate) / (observed[cell] + _PRIOR)
        estimates[bucket] = estimate
    return estimate  # type: ignore[no-any-return]


@jit
def _odds(chance: float) -> float:
    chance = min(max(chance, _LEAST_ESTIMATE), 1.0 - _LEAST_ESTIMATE)
    return math.log(chance / (1.0 - chance))


@jit
def _features(counts: Counts, estimate: float, evidence: Floats, far: bool, features: Floats) -> bool:
    """`Calibrator._features` of a child's evidence; False if there is none."""
    similarity, margin, drafted = evidence[SIMILARITY], evidence[MARGIN], evidence[DRAFT_PROBABILITY]
    if far:
        similarity = np.nan
    if math.isnan(similarity) and math.isnan(margin) and math.isnan(drafted):
        return False
    seen, mean, spread = counts[4][0], counts[4][1], counts[4][2]
    features[1:7] = 0.0
    features[0] = _odds(estimate)
    if math.isnan(similarity) or seen < _KNOWN_AFTER:
        features[2] = 1.0
    else:
        features[1] = min(max((similarity - mean) / spread, -_WIDEST), _WIDEST)
    if math.isnan(margin):
        features[4] = 1.0
    else:
        features[3] = min(max((margin - _MARGIN_MEAN) / _MARGIN_SPREAD, -_WIDEST), _WIDEST)
    if math.isnan(drafted):
        features[6] = 1.0
    else:
        features[5] = _odds(drafted)
    features[7] = 1.0
    return True


@jit
def _corrected(weights: Floats, features: Floats) -> float:
    """`Calibrator._chance`."""
    odds = 0.0
    for at in range(_FEATURES):
        odds += weights[at] * features[at]
    return 1.0 / (1.0 + math.exp(-min(max(odds, -12.0), 12.0)))


@jit
def _learn(counts: Counts, bucket: int, hit: float, at: int, evidence: Floats) -> None:
    """`AcceptanceTable.learn`."""
    accepted, observed, estimates, all_weights, similarities = counts
    estimate, features, weights = _probability(counts, bucket), np.empty(_FEATURES), all_weights[int(at > 0)]
    similarity = evidence[SIMILARITY]
    if at == 0 and not math.isnan(similarity):
        seen, mean, spread = similarities[0], similarities[1], similarities[2]
        seen = min(seen + 1.0, _MEMORY)
        off = similarity - mean
        mean += off / seen
        variance = spread * spread + (off * (similarity - mean) - spread * spread) / seen
        similarities[0], similarities[1], similarities[2] = seen, mean, max(math.sqrt(variance), 1e-3)
    if _features(counts, estimate, evidence, at >= _FAR, features):
        step = _RATE * (hit - _corrected(weights, features))
        for i in range(_FEATURES):
            weights[i] += step * features[i]
    cells = np.empty(5, np.int64)
    _levels(bucket, cells)
    for cell in cells:
        if observed[cell] >= _MOST:
            accepted[cell] *= 0.5
            observed[cell] *= 0.5
        accepted[cell] += hit
        observed[cell] += 1.0
    estimates[bucket] = 0.0


@jit
def _holds(values: Ints, value: int) -> bool:
    found = False
    for one in values:
        found |= one == value
    return found


@jit
def guesses_worth(counts: Counts, recent: int, least: float) -> int:
    """The number of guesses whose chances by rank are not below `least`."""
    for rank in range(_GUESSES):
        if _probability(counts, _bucket(rank, GUESS, _ANSWER, 0, 0, recent)) < least:
            return rank
    return _GUESSES


@jit
def _continues(eos: tuple[Ints, Floats, Floats], ends: Ints, token: int) -> float:
    """`Evidence.continues`."""
    if not len(ends):
        return 1.0
    tokens, ended, observed = eos
    row = np.searchsorted(tokens, token)
    if row == len(tokens) or tokens[row] != token:
        return 1.0
    return 1.0 - ended[row] / (observed[row] + _EOS_PRIOR)  # type: ignore[no-any-return]


@jit
def merge(
    text: tuple[Tokens, int, Ints, Tokens, Ints],
    rows: Ints,
    evidence: tuple[Floats, Floats],
    drafted: tuple[Ints, Ints, Floats, int],
    counts: Counts,
    eos: tuple[Ints, Floats, Floats],
    ends: Ints,
    last: int,
    recent: int,
    depth: int,
    least: float,
    tree: Tree,
) -> int:
    """`merge_candidates`, the best node first; returns the number of nodes.

    Args:
        text: the text's tokens, their number, its segments' starts, the answer included; the corpora's tokens, starts.
        rows: int64 [candidates, columns of `lookup`], the strongest first, guesses last.
        evidence: of each candidate: its similarity, and the logit margin of its first token.
        drafted: a drafter's tree: parents, tokens and probabilities given the parent, and its proposal type.
        ends: tokens that end the answer. last, recent, depth, least: as `Evidence` and `merge_candidates`.
        tree: is filled.
    """
    tokens, length, starts, corpus, corpus_starts = text
    nodes, values, spans, children, proofs = tree
    similarities, margins = evidence
    draft_parents, draft_tokens, draft_chances, draft_type = drafted
    most = nodes.shape[1]
    # Each node's candidates are a run of `members`, which its children divide among them.
    members, gathered, group_of = np.arange(len(rows)), np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    next_tokens, runs = np.empty(len(rows), np.int64), np.zeros((len(children), 2), np.int64)
    open_values, features = np.empty(len(children)), np.empty(_FEATURES)
    count, made = 0, 0
    spans[:] = 0
    node, at, value, low, high, place = ROOT, 0, _continues(eos, ends, last), 0, len(rows), ROOT
    grows = depth >= 1
    while True:
        if grows:
            first = made
            groups = total = 0
            for member in range(low, high):
                row = members[member]
                group_of[member] = -1
                if at >= rows[row, SIZE] or (at == 0 and rows[row, TYPE] == GUESS):
                    continue
                position = rows[row, POSITION]
                if at == 0:
                    token = rows[row, FIRST]
                elif position >= CORPUS_OFFSET:
                    token = np.int64(corpus[position - CORPUS_OFFSET + at])
                else:
                    token = np.int64(tokens[position + at % (length - position)])
                next_tokens[member] = token
                group = 0
                while group < groups and children[first + group, CHILD_TOKEN] != token:
                    group += 1
                if group == groups:
                    groups += 1
                    children[first + group, CHILD_TOKEN], children[first + group, CANDIDATE] = token, row
                    proofs[first + group, SIMILARITY] = np.nan
                    runs[first + group, 1] = 0
                group_of[member] = group
                runs[first + group, 1] += 1
                total += 1
                similarity, known = similarities[row], proofs[first + group, SIMILARITY]
                if not math.isnan(similarity) and (math.isnan(known) or similarity > known):
                    proofs[first + group, SIMILARITY] = similarity
            made += groups
            to = low
            for group in range(groups):
                child, begin = first + group, to
                for member in range(low, high):
                    if group_of[member] == group:
                        gathered[to] = members[member]
                        to += 1
                runs[child, 0], runs[child, 1] = begin, to
                size, row = to - begin, children[child, CANDIDATE]
                if groups == 1:
                    agreement = 0 if size == 1 else 1 if size < 4 else 2
                else:
                    agreement = 3 if size == 1 else 4 if 2 * size < total else 5
                proposal_type = MATCH if rows[row, TYPE] == GUESS else rows[row, TYPE]
                children[child, BUCKET] = _bucket(
                    rows[row, LENGTH] + at, proposal_type, rows[row, KIND], agreement, group, recent
                )
            if at == 0:
                for member in range(low, high):
                    row = members[member]
                    if rows[row, TYPE] == GUESS:
                        gathered[to] = row
                        runs[made, 0], runs[made, 1] = to, to + 1
                        to += 1
                        children[made, CHILD_TOKEN], children[made, CANDIDATE] = rows[row, FIRST], row
                        children[made, BUCKET] = _bucket(rows[row, RANK], GUESS, rows[row, KIND], 0, 0, recent)
                        proofs[made, SIMILARITY] = np.nan
                        made += 1
            members[low:to] = gathered[low:to]
            proposed = made
            for child in range(first, proposed):
                proofs[child, MARGIN] = margins[children[child, CANDIDATE]] if at == 0 else np.nan
                proofs[child, DRAFT_PROBABILITY] = np.nan
                children[child, DRAFTED] = OUTSIDE
            for draft in range(len(draft_tokens)):
                if draft_parents[draft] != place:
                    continue
                if made == proposed and first < proposed and math.isnan(proofs[first, DRAFT_PROBABILITY]):
                    for child in range(first, proposed):
                        proofs[child, DRAFT_PROBABILITY] = _UNLIKELY
                known_child = -1
                for child in range(first, proposed):
                    if children[child, CHILD_TOKEN] == draft_tokens[draft]:
                        known_child = child
                if known_child >= 0:
                    children[known_child, DRAFTED] = draft
                    proofs[known_child, DRAFT_PROBABILITY] = draft_chances[draft]
                else:
                    bucket = np.searchsorted(_CONFIDENCES, draft_chances[draft], side="right")
                    children[made, CHILD_TOKEN], children[made, CANDIDATE] = draft_tokens[draft], -1
                    children[made, DRAFTED] = draft
                    children[made, BUCKET] = _bucket(_LENGTHS[bucket], draft_type, _ANSWER, 0, 0, recent)
                    proofs[made] = np.nan
                    runs[made] = 0
                    made += 1
            spans[node, 0], spans[node, 1] = first, made  # ROOT is the last row
            unclaimed = 1.0  # siblings exclude each other
            for child in range(first, made):
                chance = _probability(counts, children[child, BUCKET])
                if _features(counts, chance, proofs[child], at >= _FAR, features):
                    chance = _corrected(counts[3][int(at > 0)], features)
                chance = min(chance, unclaimed)
                unclaimed -= chance
                open_values[child] = value * chance
        if count == most:
            break
        chosen, value = -1, -1.0
        for child in range(made):
            if open_values[child] > value:
                chosen, value = child, open_values[child]
        if chosen < 0 or value < least:
            break
        open_values[chosen] = -1.0
        grows = False
        token, row = children[chosen, CHILD_TOKEN], children[chosen, CANDIDATE]
        if _holds(ends, token):
            continue
        parent = ROOT
        for other in range(count):
            if spans[other, 0] <= chosen < spans[other, 1]:
                parent = other
        at = 0 if parent == ROOT else nodes[DEPTH, parent]
        node = count
        nodes[TOKEN, node], nodes[PARENT, node], nodes[DEPTH, node], nodes[STRONGEST, node] = token, parent, at + 1, row
        copied = row >= 0 and (at > 0 or rows[row, TYPE] != GUESS)
        nodes[SEGMENT, node] = nodes[OFFSET, node] = -1
        if copied and rows[row, POSITION] >= CORPUS_OFFSET:
            position = rows[row, POSITION] + at - CORPUS_OFFSET
            segment = np.searchsorted(corpus_starts, position, side="right") - 1
            nodes[SEGMENT, node], nodes[OFFSET, node] = len(starts) - 1 + segment, position - corpus_starts[segment]
        elif copied:
            position = rows[row, POSITION] + at
            segment = np.searchsorted(starts, position, side="right") - 1
            nodes[SEGMENT, node] = segment if segment < len(starts) - 1 else -1
            nodes[OFFSET, node] = position - starts[segment]
        values[node] = value
        count += 1
        at += 1
        grows = at < depth
        if grows:
            value *= _continues(eos, ends, token)
            low, high, place = runs[chosen, 0], runs[chosen, 1], children[chosen, DRAFTED]
    return count


@jit
def learn(path: Ints, ends: Ints, rows: Ints, counts: Counts, tree: Tree, count: int) -> None:
    """`Trie.learn` from the true tokens `path`, without the prior of ends; other arguments as `merge`."""
    nodes, _, spans, children, proofs = tree
    node = ROOT
    for depth in range(len(path)):
        token = path[depth]
        if _holds(ends, token):
            return
        for child in range(spans[node, 0], spans[node, 1]):
            row = children[child, CANDIDATE]
            if depth == 0 and row >= 0 and rows[row, TYPE] == GUESS:
                continue  # see Guesses.learn
            hit = 1.0 if children[child, CHILD_TOKEN] == token else 0.0
            _learn(counts, children[child, BUCKET], hit, depth, proofs[child])
        following = ROOT
        for other in range(count):
            if nodes[PARENT, other] == node and nodes[TOKEN, other] == token:
                following = other
        if following == ROOT:
            return
        node = following
