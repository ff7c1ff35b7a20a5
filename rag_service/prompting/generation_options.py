"""From a request's options to a job's: sampling and speculation. Pure, but for drawing an absent seed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_service.contract.schemas import AnswerOptions, SpeculationOptions
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import PromptTemplate, parts
from workers.broker.messages import RepetitionLimit, Sampling, Speculation
from workers.broker.sampling import SamplingFields

TELLING_CHARS = 120
"""Of a question that an answer repeats."""


def sampling(
    request: AnswerOptions, max_tokens: int, repetition: RepetitionLimit | None, prompted: Sequence[str] = ()
) -> Sampling:
    """Args: prompted: texts of the prompt that end an answer which repeats them."""
    return Sampling(
        **request.model_dump(include=set(SamplingFields.model_fields)),
        max_tokens=max_tokens,
        logit_bias={int(token): bias for token, bias in request.logit_bias.items()},
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        stop=[*request.stops, *prompted],
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


def question_again(
    template: PromptTemplate, retrieved: Retrieved, question: str, passages: Iterable[Mapping[str, Any]]
) -> list[str]:
    """What ends an answer from passages: the question after our own words, as the prompt has it. The answer is over.

    Empty if the template has no words before the question, or if a passage has the same: an answer may quote it.

    Args:
        question: as the user wrote it.
        passages: those that the model reads; none for an answer without.
    """
    found = parts(template.whole if retrieved.whole else template.question)
    places = [number for number, (_, slot) in enumerate(found) if slot == "question"]
    words = "".join(literal for literal, _ in found[: places[0]]).strip() if places else ""
    again = f"{words}\n{retrieved.in_full(question).strip()[:TELLING_CHARS]}"
    texts = [str(passage["text"]) for passage in passages]
    return [again] if words and texts and not any(again in text for text in texts) else []


def speculation(request: AnswerOptions, drafter: str) -> Speculation:
    """Args: drafter: of requests that name none."""
    options = request.speculation
    if isinstance(options, SpeculationOptions):
        return Speculation(drafter=options.drafter, max_nodes=options.max_nodes)
    return Speculation(drafter=options or drafter)
