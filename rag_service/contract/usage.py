"""What answers cost in tokens, as the API and `rag usage` show it."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from rag_service.contract.json_body import ResponseBody
from workers.sessions.costs import Cost


class UsageOfDay(ResponseBody):
    """What answers cost on a day with one model."""

    day: str = Field(description="In UTC, such as `2026-11-25`.")
    engine: Literal["decoder", "upstream"] = Field(
        description="`decoder`: the service's own; `upstream`: a model server."
    )
    upstream: str | None = Field(description="Name of the model server; null for the service's own engine.")
    model: str
    prompt_tokens: int
    cached_tokens: int = Field(description="Those prompt tokens that were not processed again.")
    completion_tokens: int
    estimated_tokens: int = Field(
        description="Those prompt and completion tokens that the model server did not count, so that the service did."
    )

    @classmethod
    def of(cls, day: date, cost: Cost) -> UsageOfDay:
        counts = cost.counts
        return cls(
            day=day.isoformat(),
            engine=cost.engine,
            upstream=cost.upstream or None,
            model=cost.model,
            prompt_tokens=counts.prompt,
            cached_tokens=counts.cached,
            completion_tokens=counts.completion,
            estimated_tokens=counts.estimated,
        )


class TenantUsage(ResponseBody):
    tenant: str
    usage: list[UsageOfDay]
