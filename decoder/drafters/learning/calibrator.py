"""Calibrator: a token's chance from the acceptance table's estimate and the model's own evidence for it.

Three kinds of evidence: the similarity of the hidden states at the place a token would be copied from and at the end of
the text (PLD+'s ranking); the token's logit margin in the row that chose the last token (LogitSpec's observation); the
draft probability of a neural drafter that ran. They enter a logistic regression over the log-odds of the estimate,
learned online. The similarity also helps for the next few tokens of a copy, the logit margin only for the next token.

Similarities of different models and layers have different ranges, so they are standardised by those seen lately.

Knows numbers; knows no tokens, no trees and no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_FAR = 8
"""Depth from which on the similarity is ignored."""
_RATE = 0.01
_LEAST_ESTIMATE = 1e-4
_WIDEST = 4.0
"""Standardised features are clipped to this."""
_KNOWN_AFTER = 32.0
"""Similarities to observe before the similarity counts."""
_MEMORY = 4096.0
_MARGIN_MEAN, _MARGIN_SPREAD = -14.0, 5.0
"""Typical logit margins of tokens that occur in the text."""
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
        """Probability that a token is accepted, given that those before it are; in (0, 1).

        Args:
            estimate: the acceptance table's.
            at: tokens of the draft before it.
            similarity: cosine of the states at the best place to copy it from; None if there is none.
            logit_margin: its logit less the chosen token's in the row that chose the last token; None if unknown.
            draft_probability: a neural drafter's probability of it; None if none ran.
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
        """Take one step of gradient descent. `hit`: whether the token was the true one; other arguments as `chance`."""
        if similarity is not None and at == 0:
            self._observe_similarity(similarity)
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
        copied = Calibrator()
        copied._weights = [list(weights) for weights in self._weights]
        return copied

    def state(self) -> list[list[float]]:
        """The weights. The statistics of similarities are left out: the next model's may differ."""
        return [[round(weight, 4) for weight in weights] for weights in self._weights]

    @classmethod
    def of(cls, state: Any) -> Calibrator:
        """The reverse of `state`. Raises TypeError for anything else."""
        calibrator = cls()
        if not isinstance(state, list) or [len(weights) for weights in state] != [_FEATURES, _FEATURES]:
            raise TypeError("its weights are of another version")
        calibrator._weights = [[float(weight) for weight in weights] for weights in state]
        if not all(math.isfinite(weight) for weights in calibrator._weights for weight in weights):
            raise TypeError("its weights are not numbers")
        return calibrator

    def _features(
        self, estimate: float, similarity: float | None, logit_margin: float | None, draft_probability: float | None
    ) -> Sequence[float]:
        close = None if similarity is None or self._seen < _KNOWN_AFTER else (similarity - self._mean) / self._spread
        likely = None if logit_margin is None else (logit_margin - _MARGIN_MEAN) / _MARGIN_SPREAD
        return (
            _odds(estimate),
            0.0 if close is None else min(max(close, -_WIDEST), _WIDEST),
            float(close is None),
            0.0 if likely is None else min(max(likely, -_WIDEST), _WIDEST),
            float(likely is None),
            0.0 if draft_probability is None else _odds(draft_probability),
            float(draft_probability is None),
            1.0,
        )

    def _chance(self, features: Sequence[float], at: int) -> float:
        odds = sum(map(float.__mul__, self._weights[at > 0], features))
        return 1.0 / (1.0 + math.exp(-min(max(odds, -12.0), 12.0)))

    def _observe_similarity(self, similarity: float) -> None:
        self._seen = min(self._seen + 1.0, _MEMORY)
        off = similarity - self._mean
        self._mean += off / self._seen
        variance = self._spread**2 + (off * (similarity - self._mean) - self._spread**2) / self._seen
        self._spread = max(math.sqrt(variance), 1e-3)


def _odds(chance: float) -> float:
    chance = min(max(chance, _LEAST_ESTIMATE), 1.0 - _LEAST_ESTIMATE)
    return math.log(chance / (1.0 - chance))
