"""Accepted: what the walk through a draft tree accepted. Knows tokens and nodes; knows no model."""

from __future__ import annotations

from dataclasses import dataclass, field

from decoder.drafts.tree import TokenSource
from decoder.sampling.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class Accepted:
    """`tokens` are the accepted draft tokens and the bonus token; `path` the accepted nodes, one fewer.

    Where a strict answer's walk ended at a near-tie there is no bonus token, so `path` is as long as `tokens`, and
    `doubtful` is what this pass would have chosen. `logprobs` has one entry a token where the answer asks for them.
    """

    tokens: list[int]
    path: list[int]
    sources: list[TokenSource | None]
    doubtful: int | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
