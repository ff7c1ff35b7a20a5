"""Guesses: the best tokens of the last logits, which may well come one position later (LogitSpec, arXiv 2507.01449).
The likeliest are extended by the tokens after a match of their own n-gram in the text, as in the paper.

Knows a sequence's index and one row of logits; knows no model and no tree.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Sequence as Ids
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafters.auto.copies import GUESS, NO_PLACE, Candidate
from decoder.drafters.best_tokens import best_tokens
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable, feature_bucket
from decoder.sequence import Sequence

_ANSWER = KINDS.index("answer")
MOST = 48
"""Most guesses of a step."""
EXTENDED = 8
"""Guesses of a lower rank are extended by their n-gram's match."""
CONTINUED = 4
"""Most tokens after a guess."""
NGRAM = 6


class Guesses:
    """The last logits of one sequence, and the guesses in them.

    Args:
        logits: float [V], of the row that chose the sequence's last token.
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = torch.empty(len(logits), dtype=torch.promote_types(logits.dtype, torch.float32))
        """In main memory: what a draft reads of them would take an accelerator longer than the copy."""
        self.row: NDArray[np.float32] = self.logits.numpy()
        """The same memory, float64 if the logits are."""
        pinned = logits.device.type == "cuda"
        self._received = torch.empty(len(logits), dtype=logits.dtype, pin_memory=True) if pinned else None
        self.see(logits)

    def see(self, logits: torch.Tensor) -> None:
        """Replace the logits by those of a later row."""
        self.logits.copy_(logits if self._received is None else self._received.copy_(logits))

    def logit_margins(self, tokens: Ids[int] | NDArray[np.int64], last: int) -> NDArray[np.float64]:
        """Each token's logit less that of the chosen token `last`: float64, one for each."""
        margins: NDArray[np.float64] = self.row[tokens].astype(np.float64) - float(self.row[last])
        return margins

    def candidates(
        self, sequence: Sequence, table: AcceptanceTable, recent_acceptance: int, least: float, copied: Container[int]
    ) -> list[Candidate]:
        """Guesses that may be worth a node, the likeliest first.

        Args:
            table, recent_acceptance: give their chances by rank.
            least: chance below which a guess is not worth its row.
            copied: first tokens of the step's copies, which are no guesses.
        """
        worth = next(r for r in count() if r >= MOST or table.probability(_rank_bucket(r, recent_acceptance)) < least)
        if not worth:
            return []
        best = best_tokens(self.logits, worth + 1)  # the chosen one may be among them
        guesses = [token for token in best if token != sequence.last_token][:worth]
        recent = sequence.suffix(NGRAM - 1)
        extended = [token for token in guesses[:EXTENDED] if token not in copied]
        found = sequence.index.matches_of([[*recent, token] for token in extended], 1, NGRAM) if extended else []
        matches = dict(zip(extended, found, strict=True))
        candidates = []
        for rank, token in enumerate(guesses):
            if token in copied:
                continue
            position, length, following = NO_PLACE, 0, list[int]()
            if rank < EXTENDED:
                match = matches[token]
                if match:
                    position, length = match[0].position - 1, match[0].length - 1
                    following = sequence.index.tokens[position + 1 : position + 1 + CONTINUED].tolist()
            candidates.append(Candidate([token, *following], position, length, GUESS, _ANSWER, None, rank))
        return candidates

    def learn(
        self, table: AcceptanceTable, recent_acceptance: int, copied: Container[int], last: int, token: int
    ) -> None:
        """Teach the table which rank came true, proposed or not: others could never rise again.

        Args:
            table, recent_acceptance, copied: as for `candidates`.
            last: the token that these logits chose; token: the token after it.
        """
        best = best_tokens(self.logits, MOST + 1)
        for rank, guess in enumerate([guess for guess in best if guess != last][:MOST]):
            if guess not in copied:
                table.learn(_rank_bucket(rank, recent_acceptance), guess == token)


def _rank_bucket(rank: int, recent_acceptance: int) -> int:
    return feature_bucket(rank, GUESS, _ANSWER, 0, 0, recent_acceptance)
