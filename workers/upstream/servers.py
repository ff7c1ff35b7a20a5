"""The kinds of model servers: which optional parameters each takes. Knows no HTTP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from workers.broker.capabilities import Capabilities

ServerName = Literal["openai", "llama.cpp", "vllm", "sglang", "ollama"]

_COMMON = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of model server. Only llama.cpp was tried; the others are as their documentation says.

    Attributes:
        sampling: names of `SamplingFields` that it takes.
        continues: whether it goes on from an answer's beginning, given as a last message of the assistant.
        prediction: whether it takes OpenAI's `prediction`.
        hottest: the highest temperature that it takes.
    """

    name: ServerName
    sampling: frozenset[str]
    continues: bool = False
    prediction: bool = False
    hottest: float = math.inf

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            engine="upstream",
            exact_speculation=False,
            token_ids=False,
            logprobs=False,
            check=True,
            seeds=True,
            grammar=False,
            json_schema=True,
            tools=True,
            continuation=self.continues,
            prediction=self.prediction,
            sampling=self.sampling,
            hottest=self.hottest,
        )


SERVERS: dict[ServerName, Server] = {
    "openai": Server("openai", _COMMON, prediction=True, hottest=2.0),
    "llama.cpp": Server("llama.cpp", _COMMON | {"top_k", "min_p", "repetition_penalty"}, continues=True),
    "vllm": Server("vllm", _COMMON | {"top_k", "min_p", "repetition_penalty"}, continues=True),
    "sglang": Server("sglang", _COMMON | {"top_k", "min_p", "repetition_penalty"}, continues=True),
    "ollama": Server("ollama", _COMMON, continues=True),
}
