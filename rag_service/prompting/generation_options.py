"""From a request's options to a job's: sampling and speculation. Pure, but for the seed drawn where none is given."""

from __future__ import annotations

import secrets

from rag_service.contract.schemas import AnswerOptions, SpeculationOptions
from workers.broker.messages import Sampling, Speculation


def sampling(request: AnswerOptions, max_tokens: int) -> Sampling:
    return Sampling(
        max_tokens=max_tokens,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias={int(token): amount for token, amount in request.logit_bias.items()},
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        stop=request.stops,
        exact=request.exact,
    )


def speculation(request: AnswerOptions, drafter: str) -> Speculation:
    """Args: drafter: of requests that name none."""
    asked = request.speculation
    if isinstance(asked, SpeculationOptions):
        return Speculation(drafter=asked.drafter, max_nodes=asked.max_nodes)
    return Speculation(drafter=asked or drafter)
