"""From a request's options to a job's: sampling and speculation. Pure, but for drawing an absent seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from rag_service.contract.schemas import AnswerOptions, SpeculationOptions
from workers.broker.messages import RepetitionLimit, Sampling, Speculation
from workers.broker.sampling import SamplingFields


def sampling(request: AnswerOptions, max_tokens: int, repetition: RepetitionLimit | None) -> Sampling:
    return Sampling(
        **request.model_dump(include=set(SamplingFields.model_fields)),
        max_tokens=max_tokens,
        logit_bias={int(token): bias for token, bias in request.logit_bias.items()},
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        stop=request.stops,
        repetition=repetition,
    )


@dataclass(frozen=True, slots=True)
class Repetitions:
    """When answers that repeat themselves end.

    Attributes:
        length, times: fewest tokens and repeats of any answer; a length of 0 sets no limit.
        passages_length, passages_times: of an answer to a question from passages, which is prose and short.
    """

    length: int
    times: int
    passages_length: int
    passages_times: int

    def limit(self, from_passages: bool) -> RepetitionLimit | None:
        length, times = self.length, self.times
        if from_passages:
            length, times = self.passages_length, self.passages_times
        return RepetitionLimit(length=length, times=times) if length else None


def speculation(request: AnswerOptions, drafter: str) -> Speculation:
    """Args: drafter: of requests that name none."""
    options = request.speculation
    if isinstance(options, SpeculationOptions):
        return Speculation(drafter=options.drafter, max_nodes=options.max_nodes)
    return Speculation(drafter=options or drafter)
