"""A request to a model server, and the body that each kind of server gets of it. Pure; knows no HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from workers.broker.messages import Sampling
from workers.upstream.endpoint import Endpoint
from workers.upstream.servers import SERVERS

NEUTRAL: dict[str, Any] = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "top_k": 0, "min_p": 0.0}
"""Values that mean that a parameter does nothing; it is not sent then."""
MOST_STOPS = 4
"""Stop strings that every server takes; the others are found in the text that it sends."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One answer to ask for.

    Attributes:
        messages: `role` and `content` of each.
        begun: beginning of the answer, which the server shall continue; only for servers that can.
        top_logprobs: ask for the likeliest choices of each token, so many; None for none.
    """

    messages: Sequence[Mapping[str, str]]
    sampling: Sampling
    json_schema: Mapping[str, Any] | None = None
    prediction: str | None = None
    begun: str = ""
    top_logprobs: int | None = None

    @property
    def continuable(self) -> bool:
        """Whether the answer can go on after a beginning; a server's grammar would begin anew."""
        return self.json_schema is None

    def continuing(self, text: str, tokens: int) -> ChatRequest:
        """The request for the rest of an answer of which `text` came, in about so many tokens."""
        left = self.sampling.model_copy(update={"max_tokens": max(1, self.sampling.max_tokens - tokens)})
        return replace(self, begun=self.begun + text, sampling=left)


@dataclass(frozen=True, slots=True)
class Delta:
    """Text as it comes; the last one of an answer has a finish reason."""

    text: str
    finish_reason: Literal["stop", "length", "cancelled"] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the server counts them; `cached` ones are of the prompt and were not processed again.

    `accepted` and `rejected` are those of a `prediction`; None if the server tells nothing of one.
    """

    prompt: int
    cached: int
    completion: int
    accepted: int | None = None
    rejected: int | None = None


def body(request: ChatRequest, endpoint: Endpoint, stream: bool = True) -> dict[str, Any]:
    """The JSON body of a request for this server."""
    server, sampling = SERVERS[endpoint.server], request.sampling
    messages = [dict(message) for message in request.messages]
    sent: dict[str, Any] = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed % 2**31,
        "stream": stream,
    }
    if stream:
        sent["stream_options"] = {"include_usage": True}
    if sampling.stop:
        sent["stop"] = list(sampling.stop[:MOST_STOPS])
    for name in ("presence_penalty", "frequency_penalty", "top_k", "min_p"):
        value = getattr(sampling, name)
        if name in server.sampling and value != NEUTRAL[name]:
            sent[name] = value
    if "repetition_penalty" in server.sampling and sampling.repetition_penalty != 1.0:
        name = "repeat_penalty" if endpoint.server == "llama.cpp" else "repetition_penalty"
        sent[name] = sampling.repetition_penalty
    if request.json_schema is not None:
        schema = {"name": "answer", "schema": dict(request.json_schema)}
        sent["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.prediction and server.prediction:
        sent["prediction"] = {"type": "content", "content": request.prediction}
    if request.begun:
        messages.append({"role": "assistant", "content": request.begun})
        if server.name in ("vllm", "sglang"):
            sent |= {"continue_final_message": True, "add_generation_prompt": False}
    if request.top_logprobs is not None:
        sent |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return sent
