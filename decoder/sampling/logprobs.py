"""Log-probabilities of chosen tokens, under the target's raw distribution. Knows logits; knows no sampling.

Only the walk computes them, and only if the request wants them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

MAX_ALTERNATIVES = 20
"""Most alternatives per token."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural logarithms of probabilities.

    Attributes:
        logprob: of the chosen token.
        top: (token, its log-probability) of the likeliest tokens, best first.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def token_logprob(logits: torch.Tensor, token: int, top: int) -> TokenLogprob:
    """The log-softmax of raw logits [V], at `token` and at the `top` best tokens."""
    values = torch.log_softmax(logits.double(), dim=-1)
    best = values.topk(min(top, len(values)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return TokenLogprob(float(values[token]), tuple(pairs))
