"""Guesses: tokens that the last logits thought of for one position and that may well come at the next (LogitSpec,
arXiv 2507.01449). The better ones are followed by what stands behind their own n-gram in the text, as in the paper.

Knows a sequence's index and one row of logits; knows no model and no tree.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count

import torch

from decoder.drafters.auto.copies import GUESS, NO_PLACE, Candidate
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable, feature_bucket
from decoder.sequence import Sequence

_OWN = KINDS.index("answer")
MOST = 48
"""Guesses a step has at most."""
_FOLLOWED = 8
"""Guesses of a rank below are followed by what their n-gram matches."""
_CONTINUED = 4
"""Tokens that follow a guess at most."""
_NGRAM = 6


class Guesses:
    """The last logits of one sequence, and the guesses in them.

    Args:
        logits: float [V], of the row that chose the sequence's last token; held until the next step.
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits

    def logit_margins(self, tokens: list[int], last: int) -> list[float]:
        """Each token's logit less that of the chosen token `last`."""
        found: list[float] = self._logits[[*tokens, last]].tolist()
        return [logit - found[-1] for logit in found[:-1]]

    def candidates(
        self, sequence: Sequence, table: AcceptanceTable, recent_acceptance: int, least: float, taken: Container[int]
    ) -> list[Candidate]:
        """Guesses that may be worth a node, the likeliest first.

        Args:
            table, recent_acceptance: where their chances by rank come from.
            least: chance below which a guess is not worth its row.
            taken: tokens that are proposed already.
        """
        worth = next(r for r in count() if r >= MOST or table.probability(_cell(r, recent_acceptance)) < least)
        if not worth:
            return []
        best = self._logits.topk(min(worth + 1, len(self._logits))).indices.tolist()  # the chosen one may be among them
        recent = sequence.suffix(_NGRAM - 1)
        made = []
        for rank, token in enumerate([token for token in best if token != sequence.last_token][:worth]):
            if token in taken:
                continue
            position, length, behind = NO_PLACE, 0, list[int]()
            if rank < _FOLLOWED:
                match = sequence.index.matches([*recent, token], 1, _NGRAM)
                if match:
                    position, length = match[0].position - 1, match[0].length - 1
                    behind = sequence.index.tokens[position + 1 : position + 1 + _CONTINUED].tolist()
            made.append(Candidate([token, *behind], position, length, GUESS, _OWN, None, rank))
        return made

    def learn(
        self, table: AcceptanceTable, recent_acceptance: int, taken: Container[int], last: int, token: int
    ) -> None:
        """Tell the table which ranks came true, proposed or not: else those that are not could never rise again.

        Args:
            table, recent_acceptance, taken: as for `candidates`.
            last: the token that these logits chose; token: the one that came behind it.
        """
        best = self._logits.topk(min(MOST + 1, len(self._logits))).indices.tolist()
        for rank, guess in enumerate([guess for guess in best if guess != last][:MOST]):
            if guess not in taken:
                table.learn(_cell(rank, recent_acceptance), guess == token)


def _cell(rank: int, recent_acceptance: int) -> int:
    return feature_bucket(rank, GUESS, _OWN, 0, 0, recent_acceptance)
