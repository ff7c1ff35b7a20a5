"""`logitspec`: LogitSpec (arXiv 2507.01449), section 4.2 and appendix D.1.

The logits that chose the last token also predict the token after it: their best entries, without that token, are the
guesses. First the continuation of the last n-gram in the text so far (n = 3, then 2, then 1) is drafted in full. Then
each guess is drafted with the continuation of its own n-gram, until the tree has `capacity` tokens. Guesses of rank
below 8 keep 4 tokens, below 32 keep 3, later ones 1. These counts include the guess, as in the paper's "we only
preserve the speculated token itself" and in the authors' code. Ranks count the guesses from 0, which is the same as in
that code for greedy answers.

Details that the paper leaves open follow its code: 20 tokens are retrieved; among several occurrences the latest one
that 20 tokens follow is used, else the one that most tokens follow; the capacity includes the root, the token that was
chosen last. There are two differences. The code keeps equal prefixes separate; here they merge, so the same capacity
includes more guesses. The code's lookups do not treat the last chosen token as text; these do.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from decoder.drafters.base import Drafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs
from decoder.sequence import Sequence

KEEPS = ((8, 4), (32, 3))
"""(rank, tokens): a guess below this rank keeps this many tokens, itself included."""


class LogitSpecDrafter(Drafter):
    """Guesses of the next-next token, each extended by retrieval. It reads raw logits, for sampled answers as well.

    Args:
        capacity: most tokens in a tree, its root included.
        max_ngram: longest n-gram to look up, 1 to 4.
        length: tokens to retrieve.

    Raises:
        ValueError: an argument is out of range.
    """

    name: ClassVar[str] = "logitspec"

    def __init__(self, capacity: int = 64, max_ngram: int = 3, length: int = 20) -> None:
        if capacity < 2:
            raise ValueError(f"capacity must be at least 2, got {capacity}")
        if not 1 <= max_ngram <= 4:
            raise ValueError(f"max_ngram must be 1 to 4, got {max_ngram}")
        if not 1 <= length < 64:
            raise ValueError(f"length must be 1 to 63, got {length}")
        self.capacity = capacity
        self.max_ngram = max_ngram
        self.length = length
        self._best: torch.Tensor | None = None
        self._source = TokenSource(self.name)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        # Indices only, so that the pass's logits can be freed; `draft` reads them, so a GPU need not finish here.
        logits = outputs.logits[-1]
        self._best = logits.topk(min(self.capacity, len(logits))).indices  # [capacity], best first

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        nodes = min(self.capacity - 1, budget)
        # A pass yields one token more than it accepts, so a node at depth `remaining` is never used.
        depth = sequence.remaining - 1
        recent = sequence.suffix(self.max_ngram)
        self._retrieve(sequence, tree, ROOT, recent, min(self.length, depth), nodes)
        best = [] if self._best is None else self._best.tolist()
        for rank, guess in enumerate([token for token in best if token != sequence.last_token]):
            if len(tree) >= nodes or depth < 1:
                break
            node = tree.add(guess, ROOT, self._source)
            keeps = next((tokens for below, tokens in KEEPS if rank < below), 1)
            self._retrieve(sequence, tree, node, [*recent, guess], min(keeps, depth) - 1, nodes)
        return tree

    def _retrieve(
        self, sequence: Sequence, tree: DraftTree, node: int, query: list[int], size: int, nodes: int
    ) -> None:
        """Add to `node` up to `size` tokens that follow the n-gram at the end of `query` in the text."""
        if size < 1:
            return
        start = self._start(sequence, query)
        if start is None:
            return
        for offset, token in enumerate(sequence.index.tokens[start : start + size].tolist()):
            if len(tree) >= nodes:
                return
            node = tree.add(token, node, sequence.copy_of(self.name, start + offset))

    def _start(self, sequence: Sequence, query: list[int]) -> int | None:
        """The position to copy from: after the longest n-gram's latest occurrence that `length` tokens follow.

        If there is no such occurrence, after the one that most tokens follow; None if the n-grams do not occur.
        """
        index = sequence.index
        latest = index.matches(query, 1, self.max_ngram)
        if not latest or latest[0].position + self.length <= len(index):
            return latest[0].position if latest else None
        size = latest[0].length
        # Fewer than `length` tokens follow at most `length` of the occurrences, so one more match is enough.
        matches = index.matches(query[-size:], self.length + 1, size, size)
        return next((m.position for m in matches if m.position + self.length <= len(index)), matches[-1].position)
