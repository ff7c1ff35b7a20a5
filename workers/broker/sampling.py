"""How tokens are sampled: the fields of requests and jobs, with their ranges and defaults, written once.

The request bodies of `rag_service.contract` and `rag_service.openai` and the job's `Sampling` derive from
`SamplingFields`. The decoder checks the same names with wider ranges (`decoder.SamplingParams`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

MOST_TOKENS = 32768
"""Largest `max_tokens`."""
SEED_LIMIT = 2**63
"""Seeds are smaller."""
MOST_STOPS = 16
"""Most stop strings of a request."""
StopString = Annotated[str, Field(min_length=1, max_length=200)]
Stop = StopString | Annotated[list[StopString], Field(max_length=MOST_STOPS)]
"""`stop` of a request: one string or a list."""


class SamplingFields(BaseModel):
    """The fields that mean the same in every request and in a job."""

    temperature: float = Field(default=0.0, ge=0.0, le=5.0, description="0 is greedy.")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0, le=1_000_000, description="Keep the k best tokens; 0 keeps all.")
    min_p: float = Field(default=0.0, ge=0.0, lt=1.0)
    repetition_penalty: float = Field(default=1.0, gt=0.0, le=10.0)
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    exact: Literal["default", "strict", "bitwise"] = Field(
        default="default",
        description="`strict` decides near-ties again in passes over one token, as plain decoding does: in half "
        "precision fewer tokens differ from it, at the price of a few more passes. `bitwise` asks for answers whose "
        "every logit is plain decoding's, as services with `RAG_EXACT=bitwise` give them, and those with `auto` where "
        "it costs nothing; others refuse it.",
    )
