"""Log-probabilities of chosen tokens. Knows logits; knows no sampling: they are of the raw distribution of the target.

Computed along the walk alone, and only where an answer asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

MOST = 20
"""Largest number of alternatives a token."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural logarithms of probabilities.

    Attributes:
        logprob: of the token that was chosen.
        top: (token, its logprob) of the likeliest tokens, best first.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def measure(logits: torch.Tensor, token: int, top: int) -> TokenLogprob:
    """Log-softmax of the raw logits [V] at `token` and at the `top` best tokens."""
    values = torch.log_softmax(logits.double(), dim=-1)
    best = values.topk(min(top, len(values)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return TokenLogprob(float(values[token]), tuple(pairs))
