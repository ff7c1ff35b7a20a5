"""`logitspec`: LogitSpec (arXiv 2507.01449), section 4.2 and appendix D.1.

The logits that chose the last token also guess the token after it: their best entries, that token itself left out,
become guesses in order. What follows the last n-gram in the text so far (n = 3, then 2, then 1) is drafted whole, then
each guess with what follows its own n-gram, until the tree holds `capacity` tokens. Guesses of rank below 8 keep 4
tokens, below 32 keep 3, later ones 1. These counts include the guess, as "we only preserve the speculated token
itself" and the authors' code have it; ranks count the guesses from 0, which for greedy answers is what that code does.

The paper leaves open what its code settles, followed here: 20 tokens are retrieved; of several occurrences the latest
with all 20 behind it is taken, else the one with most; the capacity counts the root, the token that was chosen last.
The code keeps equal prefixes apart, here they merge, so the same capacity reaches further guesses; and its lookups do
not see the token that was chosen last as text, these do.
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
"""(rank, tokens): a guess of a rank below keeps that many tokens, itself included."""


class LogitSpecDrafter(Drafter):
    """Guesses of the next-next token, each extended by retrieval. Reads raw logits, so it serves sampling too.

    Args:
        capacity: tokens of a tree, its root included.
        max_ngram: longest n-gram looked up, 1 to 4.
        length: tokens retrieved.
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
        # Only indices are held, not the pass's logits; they are read when drafting, so a GPU is not waited for here.
        logits = outputs.logits[-1]
        self._best = logits.topk(min(self.capacity, len(logits))).indices  # [capacity], best first

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        nodes = min(self.capacity - 1, budget)
        # A pass yields one token more than it accepts: a node at depth `remaining` could never be used.
        depth = sequence.remaining - 1
        recent = sequence.suffix(self.max_ngram)
        self._retrieve(sequence, tree, ROOT, recent, min(self.length, depth), nodes)
        for rank, guess in enumerate(self._guesses(sequence.last_token)):
            if len(tree) >= nodes or depth < 1:
                break
            node = tree.add(guess, ROOT, self._source)
            keeps = next((tokens for below, tokens in KEEPS if rank < below), 1)
            self._retrieve(sequence, tree, node, [*recent, guess], min(keeps, depth) - 1, nodes)
        return tree

    def _guesses(self, last: int) -> list[int]:
        best: list[int] = [] if self._best is None else self._best.tolist()
        return [token for token in best if token != last]

    def _retrieve(
        self, sequence: Sequence, tree: DraftTree, node: int, query: list[int], size: int, nodes: int
    ) -> None:
        """Add up to `size` tokens that follow `query`'s n-gram in the text below `node`."""
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
        """Where to copy from: the longest n-gram's latest occurrence with `length` tokens behind it, else with most."""
        index = sequence.index
        latest = index.matches(query, 1, self.max_ngram)
        if not latest or latest[0].position + self.length <= len(index):
            return latest[0].position if latest else None
        size = latest[0].length
        # At most `length` occurrences have fewer tokens behind them, so one more reaches the one that is wanted.
        found = index.matches(query[-size:], self.length + 1, size, size)
        return next((m.position for m in found if m.position + self.length <= len(index)), found[-1].position)
