"""`auto` within the bounds of SGLang and vLLM, and what these draft by themselves without a draft model.

Their drafters are written anew from the rules in their sources: SGLang 0.5.23 (`ngram_worker.py`,
`ngram_corpus/trie.cpp`), vLLM 0.33.0 (`ngram_proposer.py`) and its suffix decoding (`arctic-inference` 0.3.0).
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.base import CopyDrafter, Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import NOTHING, ForwardOutputs
from decoder.request import MAX_NODES
from decoder.sequence import Sequence

Tokens = NDArray[np.int32]
LEAST = 0.1
"""Least probability of a token of `Suffixes`."""
Children = dict[int, Any]
"""Token -> its own children; the most recently inserted token last."""


class GuestDrafter(AutoDrafter):
    """`auto` within a host's bounds. It never reads hidden states.

    Args:
        most: most draft tokens of a step.
        chain: whether the host verifies one path only.
        fixed: whether the host verifies `most` tokens in every step, so that it is no use to draft fewer.
    """

    name: ClassVar[str] = "guest"

    def __init__(self, most: int, chain: bool, fixed: bool) -> None:
        super().__init__()
        self._most, self._chain, self._fixed = most, chain, fixed

    def setup(self, context: DrafterContext) -> None:
        super().setup(context)
        self._layer, self.required_outputs = None, NOTHING

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, MAX_NODES if self._chain else self._most)
        tree = best_chain(tree, self._most) if self._chain else tree
        if self._fixed:
            tree.values = []  # the engine cuts trees with values to what pays
        return tree


def best_chain(tree: DraftTree, most: int) -> DraftTree:
    """The path from the root with the most expected tokens, of at most `most` nodes."""
    sums = [0.0] * len(tree)
    for node, parent in enumerate(tree.parents):
        sums[node] = tree.values[node] + (0.0 if parent == ROOT else sums[parent])
    node = max((n for n in range(len(tree)) if tree.depths[n] <= most), key=sums.__getitem__, default=ROOT)
    path: list[int] = []
    while node != ROOT:
        path.append(node)
        node = tree.parents[node]
    path.reverse()
    chain = DraftTree.chain([tree.tokens[n] for n in path], [tree.sources[n] for n in path])
    chain.values = [tree.values[n] for n in path]
    return chain


class VllmNgram(CopyDrafter):
    """vLLM's `ngram`: the longest n-gram of `shortest` to `longest` tokens that occurred before, its earliest place."""

    name: ClassVar[str] = "vllm_ngram"

    def __init__(self, shortest: int = 5, longest: int = 5, length: int = 5) -> None:
        super().__init__(length)
        self.sizes = range(longest, shortest - 1, -1)

    def starts(self, sequence: Sequence) -> list[int]:
        tokens: Tokens = sequence.index.tokens
        for n in self.sizes:
            if n < len(tokens):
                windows = np.lib.stride_tricks.sliding_window_view(tokens[:-1], n)
                found = np.flatnonzero((windows == tokens[-n:]).all(axis=1))
                if len(found):
                    return [int(found[0]) + n]
        return []


class Suffixes(Drafter):
    """vLLM's `suffix`: the most frequent continuation of the best matched suffix, in the prompt with its answer or in
    all answers.

    A match of m tokens gives at most `factor` * m tokens, and at most `depth` - m. A token's probability is the share
    of the match's places that continue up to it. The match with the greatest sum of probabilities wins.

    Args:
        answers: all earlier answers; this one's tokens are added.
        most: most tokens of a draft.
    """

    name: ClassVar[str] = "suffix"

    def __init__(self, answers: list[list[int]], most: int = 24, depth: int = 24, factor: int = 1) -> None:
        self._answers = answers
        self._most, self._depth, self._factor = most, depth, factor
        self._answers.append([])

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        self._answers[-1] = sequence.tokens
        local: Tokens = sequence.index.tokens
        everywhere = np.concatenate([np.asarray([-1, *answer], np.int32) for answer in self._answers])
        most = min(self._most, budget, sequence.remaining - 1)
        (score, tokens), (other, elsewhere) = (self._best(text, local, most) for text in (local, everywhere))
        return _chain(self.name, tokens if score >= other else elsewhere)

    def _best(self, text: Tokens, context: Tokens, most: int) -> tuple[float, list[int]]:
        best: tuple[float, list[int]] = (0.0, [])
        ends = np.arange(1, len(text) + 1)
        for matched in range(1, min(self._depth, len(context))):
            ends = ends[ends >= matched]
            ends = ends[text[ends - matched] == context[-matched]]
            if not len(ends):
                break
            score, tokens = self._continued(text, ends, min(most, self._factor * matched, self._depth - matched))
            if score >= best[0]:
                best = score, tokens
        return best

    def _continued(self, text: Tokens, ends: NDArray[np.int64], most: int) -> tuple[float, list[int]]:
        total, score, tokens = len(ends), 0.0, list[int]()
        while len(tokens) < most:
            ends = ends[ends < len(text)]
            ends = ends[text[ends] >= 0]
            if not len(ends):
                break
            token, count = Counter(text[ends].tolist()).most_common(1)[0]
            if count / total < LEAST:
                break
            tokens.append(token)
            score += count / total
            ends = ends[text[ends] == token] + 1
        return score, tokens


class SglangNgram(Drafter):
    """SGLang's `NGRAM`: a trie of the last `depth` tokens at every step of all answers, searched breadth first.

    Longer matches come first and spread less.

    Args:
        corpus: the trie's root, shared by all answers.
        prompts: whether prompts enter the trie. They do not in SGLang, but for their last tokens.
        nodes: draft tokens of every pass, one less than the rows (`--speculative-num-draft-tokens`, 12).
    """

    name: ClassVar[str] = "sglang_ngram"

    def __init__(
        self, corpus: Children, prompts: bool = False, nodes: int = 11, depth: int = 18, breadth: int = 10
    ) -> None:
        self._corpus, self._prompts, self._nodes, self._depth = corpus, prompts, nodes, depth
        self._narrowing = (breadth - 1) / (depth - 1)
        self._tail: list[int] = []

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        self._tail = sequence.suffix(self._depth)
        tree, source = DraftTree(), TokenSource(self.name)
        for matched in range(len(self._tail), 0, -1):
            node: Children | None = self._corpus
            for token in self._tail[-matched:]:
                node = node.get(token) if node is not None else None
            queue = deque([(ROOT, (self._depth - 1 - matched) * self._narrowing + 1, node or {})])
            while queue:
                parent, breadth, children = queue.popleft()
                for token in list(reversed(children))[: max(1, int(breadth))]:
                    if len(tree) == self._nodes and tree.child(parent, token) is None:
                        return tree
                    queue.append((tree.add(token, parent, source), breadth - self._narrowing, children[token]))
        return tree

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        text = self._tail  # the text before this step, so the corpus lags by one step
        if self._prompts and not text:  # after prefill
            text = sequence.prompt
        for start in range(len(text)):
            node = self._corpus
            for token in text[start : start + self._depth]:
                node[token] = node = node.pop(token, {})


def _chain(name: str, tokens: list[int]) -> DraftTree:
    return DraftTree.chain(tokens, [TokenSource(name)] * len(tokens))
