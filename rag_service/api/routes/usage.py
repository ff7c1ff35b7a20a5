"""/v1/usage: what a tenant's answers cost in tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rag_service.api.deps import ADMIN, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.contract.usage import TenantUsage, UsageOfDay

router = APIRouter(prefix="/v1/usage", tags=["usage"], dependencies=[ADMIN])

Days = Annotated[int, Query(ge=1, le=3660, description="Days to tell of, with today, in UTC.")]


@router.get("", responses=error_responses(422))
def read(pipeline: PipelineDep, days: Days = 30) -> TenantUsage:
    """Read what the tenant's answers cost in tokens, by day and model, the latest day first.

    It needs the role admin. Finished and cancelled answers count, with the rewriting of their questions, the checks of
    their support and the notes on long documents; failed answers do not.
    """
    tenant = pipeline.principal.tenant
    return TenantUsage(
        tenant=tenant, usage=[UsageOfDay.of(day, cost) for day, cost in pipeline.costs.by_day(tenant, days)]
    )
