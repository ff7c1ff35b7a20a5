"""Accepted: what the walk through a draft tree accepted. Knows tokens and nodes; knows no model."""

from __future__ import annotations

from dataclasses import dataclass, field

from decoder.drafts.tree import TokenSource
from decoder.sampling.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class Accepted:
    """What one walk accepted.

    Attributes:
        tokens: the accepted draft tokens and the bonus token; no bonus token if a strict walk ended at a near-tie.
        path: the accepted nodes, in order.
        sources: one per token; None for the bonus token.
        doubtful: the token that the pass chose at the near-tie; None if there was no near-tie.
        logprobs: one per token; empty unless the request wants log-probabilities.
    """

    tokens: list[int]
    path: list[int]
    sources: list[TokenSource | None]
    doubtful: int | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
