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

import numpy as np

FAR = 8
"""Depth from which on the similarity is ignored."""
RATE = 0.01
LEAST_ESTIMATE = 1e-4
WIDEST = 4.0
"""Standardised features are clipped to this."""
KNOWN_AFTER = 32.0
"""Similarities to observe before the similarity counts."""
MEMORY = 4096.0
MARGIN_MEAN, MARGIN_SPREAD = -14.0, 5.0
"""Typical logit margins of tokens that occur in the text."""
FEATURES = 8


class Calibrator:
    """Two regressions: for the next token and for those a few further on.

    Attributes:
        weights: float64 [2, features]; compiled code shares both arrays.
        similarities: float64 [3], of the similarities so far: their number, mean and spread.
    """

    def __init__(self) -> None:
        self.weights = np.zeros((2, FEATURES))
        self.weights[:, 0] = 1.0
        self.similarities = np.array([0.0, 0.0, 1.0])
        self._weights = [row.data.cast("B").cast("d") for row in self.weights]  # quicker to index

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
        if at >= FAR:
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
        if at >= FAR:
            similarity = None
        if similarity is None and logit_margin is None and draft_probability is None:
            return
        features = self._features(estimate, similarity, logit_margin, draft_probability)
        step = RATE * (hit - self._chance(features, at))
        weights = self._weights[at > 0]
        for i, value in enumerate(features):
            weights[i] += step * value

    def copy(self) -> Calibrator:
        copied = Calibrator()
        copied.weights[:] = self.weights
        return copied

    def state(self) -> list[list[float]]:
        """The weights. The statistics of similarities are left out: the next model's may differ."""
        return [[round(weight, 4) for weight in weights] for weights in self.weights.tolist()]

    @classmethod
    def of(cls, state: Any) -> Calibrator:
        """The reverse of `state`. Raises TypeError for anything else."""
        calibrator = cls()
        if not isinstance(state, list) or [len(weights) for weights in state] != [FEATURES, FEATURES]:
            raise TypeError("its weights are of another version")
        calibrator.weights[:] = state
        if not np.isfinite(calibrator.weights).all():
            raise TypeError("its weights are not numbers")
        return calibrator

    def _features(
        self, estimate: float, similarity: float | None, logit_margin: float | None, draft_probability: float | None
    ) -> Sequence[float]:
        seen, mean, spread = self.similarities.tolist()
        close = None if similarity is None or seen < KNOWN_AFTER else (similarity - mean) / spread
        likely = None if logit_margin is None else (logit_margin - MARGIN_MEAN) / MARGIN_SPREAD
        return (
            _odds(estimate),
            0.0 if close is None else min(max(close, -WIDEST), WIDEST),
            float(close is None),
            0.0 if likely is None else min(max(likely, -WIDEST), WIDEST),
            float(likely is None),
            0.0 if draft_probability is None else _odds(draft_probability),
            float(draft_probability is None),
            1.0,
        )

    def _chance(self, features: Sequence[float], at: int) -> float:
        odds = 0.0
        for weight, feature in zip(self._weights[at > 0], features, strict=True):
            odds += weight * feature
        return 1.0 / (1.0 + math.exp(-min(max(odds, -12.0), 12.0)))

    def _observe_similarity(self, similarity: float) -> None:
        seen, mean, spread = self.similarities.tolist()
        seen = min(seen + 1.0, MEMORY)
        off = similarity - mean
        mean += off / seen
        variance = spread * spread + (off * (similarity - mean) - spread * spread) / seen
        self.similarities[:] = seen, mean, max(math.sqrt(variance), 1e-3)


def _odds(chance: float) -> float:
    chance = min(max(chance, LEAST_ESTIMATE), 1.0 - LEAST_ESTIMATE)
    return math.log(chance / (1.0 - chance))
