"""The best candidates of a search in the order of a reranker, as many of them as a budget of time allows.

Knows batches and time; the model is `embedding.reranker`'s, the candidates are the fusion's. Without a budget the order
depends on the texts alone; with one it also depends on how fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retriever.embedding.reranker import Reranker

BATCH = 4
"""Candidates scored between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """How searches are reranked.

    Attributes:
        reranker: scores passages; its model is loaded by the first search.
        candidates: how many of the best candidates it may score.
        budget_ms: milliseconds that it may take for one search, loading apart; 0: as long as it needs.
        clock: seconds.
    """

    reranker: Reranker
    candidates: int = 20
    budget_ms: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """The scores of the first texts, best candidate first; of fewer than all if the budget is spent.

        The first batch is always scored. Another one is begun only if there is time for the slowest one so far.
        Raises RerankerUnavailable.
        """
        if not texts:
            return []
        if not self.budget_ms:
            return list(self.reranker.scores(question, texts))
        self.reranker.load()
        scores: list[float] = []
        begin = now = self.clock()
        slowest = 0.0
        while len(scores) < len(texts) and (now - begin + slowest) * 1000 <= self.budget_ms:
            scores += self.reranker.scores(question, texts[len(scores) : len(scores) + BATCH])
            before, now = now, self.clock()
            slowest = max(slowest, now - before)
        return scores
