"""Calibrator: from the acceptance table's estimate, and what the model itself shows of a token, to a chance.

The table knows how a token was found. The model shows more: how alike its state was at the place that a token would be
copied from and where the text is now (PLD+'s ranking), and how much it thought of the token one position earlier
(LogitSpec's observation). A neural drafter, where one ran, has a belief of its own. All enter a logistic regression
over the logarithm of the estimate's odds, learned online. Likeness still tells something a few tokens down the copy,
what the last logits thought only of the next token.

Similarities of different models and layers lie differently, so likeness counts in deviations from those seen lately.

Knows numbers; knows no tokens, no trees and no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_FAR = 8
"""Depth from which on likeness no longer tells anything."""
_RATE = 0.01
_LEAST_ESTIMATE = 1e-4
_WIDEST = 4.0
"""Signs are cut to this many deviations."""
_KNOWN_AFTER = 32.0
"""Similarities seen before likeness says anything."""
_MEMORY = 4096.0
_GAP_MEAN, _GAP_SPREAD = -14.0, 5.0
"""What logits less the chosen token's are about, of tokens that stand in the text."""
_FEATURES = 8


class Calibrator:
    """Two regressions: for the next token and for those a few further on."""

    def __init__(self) -> None:
        self._weights = [[1.0] + [0.0] * (_FEATURES - 1) for _ in range(2)]
        self._seen, self._mean, self._spread = 0.0, 0.0, 1.0

    def chance(
        self,
        estimate: float,
        at: int,
        similarity: float | None,
        logit_margin: float | None,
        draft_probability: float | None = None,
    ) -> float:
        """Chance that a token is right, given that those before it are; in (0, 1).

        Args:
            estimate: the acceptance table's.
            at: tokens of the draft before it.
            similarity: cosine of the states, of the best place it would be copied from; None where there is none.
            logit_margin: its logit less the chosen token's in the row that chose the last token; None where unknown.
            draft_probability: a neural drafter's confidence in it; None where none has one.
        """
        if at >= _FAR:
            similarity = None
        if similarity is None and logit_margin is None and draft_probability is None:
            return estimate
        return self._chance(self._features(estimate, similarity, logit_margin, draft_probability), at)

    def learn(
        self,
        estimate: float,
        at: int,
        similarity: float | None,
        logit_margin: float | None,
        draft_probability: float | None,
        hit: bool,
    ) -> None:
        """Count a token whose turn came. Arguments as for `chance`."""
        if similarity is not None and at == 0:
            self._get_used_to(similarity)
        if at >= _FAR:
            similarity = None
        if similarity is None and logit_margin is None and draft_probability is None:
            return
        features = self._features(estimate, similarity, logit_margin, draft_probability)
        step = _RATE * (hit - self._chance(features, at))
        weights = self._weights[at > 0]
        for i, value in enumerate(features):
            weights[i] += step * value

    def copy(self) -> Calibrator:
        made = Calibrator()
        made._weights = [list(weights) for weights in self._weights]
        return made

    def state(self) -> list[list[float]]:
        """Its weights; likeness is counted anew by whoever takes them up, since its model may be another one."""
        return [[round(weight, 4) for weight in weights] for weights in self._weights]

    @classmethod
    def of(cls, state: Any) -> Calibrator:
        """What `state` wrote. Raises TypeError for anything else."""
        made = cls()
        if not isinstance(state, list) or [len(weights) for weights in state] != [_FEATURES, _FEATURES]:
            raise TypeError("its weights are of another version")
        made._weights = [[float(weight) for weight in weights] for weights in state]
        if not all(math.isfinite(weight) for weights in made._weights for weight in weights):
            raise TypeError("its weights are not numbers")
        return made

    def _features(
        self, estimate: float, similarity: float | None, logit_margin: float | None, draft_probability: float | None
    ) -> Sequence[float]:
        alike = None if similarity is None or self._seen < _KNOWN_AFTER else (similarity - self._mean) / self._spread
        thought = None if logit_margin is None else (logit_margin - _GAP_MEAN) / _GAP_SPREAD
        return (
            _odds(estimate),
            0.0 if alike is None else min(max(alike, -_WIDEST), _WIDEST),
            float(alike is None),
            0.0 if thought is None else min(max(thought, -_WIDEST), _WIDEST),
            float(thought is None),
            0.0 if draft_probability is None else _odds(draft_probability),
            float(draft_probability is None),
            1.0,
        )

    def _chance(self, features: Sequence[float], at: int) -> float:
        odds = sum(map(float.__mul__, self._weights[at > 0], features))
        return 1.0 / (1.0 + math.exp(-min(max(odds, -12.0), 12.0)))

    def _get_used_to(self, similarity: float) -> None:
        self._seen = min(self._seen + 1.0, _MEMORY)
        off = similarity - self._mean
        self._mean += off / self._seen
        variance = self._spread**2 + (off * (similarity - self._mean) - self._spread**2) / self._seen
        self._spread = max(math.sqrt(variance), 1e-3)


def _odds(chance: float) -> float:
    chance = min(max(chance, _LEAST_ESTIMATE), 1.0 - _LEAST_ESTIMATE)
    return math.log(chance / (1.0 - chance))
