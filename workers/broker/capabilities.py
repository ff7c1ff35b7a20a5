"""What an engine can do: our own decoder, or a model server. Pure names; knows no engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from workers.broker.sampling import SamplingFields


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do.

    Attributes:
        engine: our own decoder, or a model server (an upstream).
        exact_speculation: whether speculation is ours and changes no token, so that `exact: strict` has a meaning.
        token_ids: whether the answer's ids are the model's own, so that clients may read them and bias them.
        logprobs: whether each token's log-probabilities can be asked for.
        check: whether the likeliest choices of one token can be asked for, for an answer's support.
        seeds: whether a seed makes a sampled answer come again.
        grammar: whether calls of functions can be forced by a grammar.
        json_schema: whether an answer can be made to follow a JSON schema.
        tools: whether tools can be offered.
        continuation: whether an answer can go on from a given beginning.
        prediction: whether an expected answer makes the answer faster.
        sampling: names of `SamplingFields` that the engine takes.
        hottest: the highest temperature that it takes.
    """

    engine: Literal["decoder", "upstream"]
    exact_speculation: bool
    token_ids: bool
    logprobs: bool
    check: bool
    seeds: bool
    grammar: bool
    json_schema: bool
    tools: bool
    continuation: bool
    prediction: bool
    sampling: frozenset[str]
    hottest: float = math.inf


DECODER = Capabilities(
    engine="decoder",
    exact_speculation=True,
    token_ids=True,
    logprobs=True,
    check=True,
    seeds=True,
    grammar=True,
    json_schema=True,
    tools=True,
    continuation=True,
    prediction=True,
    sampling=frozenset(SamplingFields.model_fields),
)
