"""/v1/audit: who changed what of a tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rag_service.api.deps import ADMIN, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.contract.audit import AuditPage
from rag_service.contract.id_patterns import ENTRY_ID
from rag_service.contract.ids import PageSize

router = APIRouter(prefix="/v1/audit", tags=["audit"], dependencies=[ADMIN])

Before = Annotated[str | None, Query(pattern=ENTRY_ID, description="Id of an entry: only older ones are listed.")]


@router.get("", responses=error_responses(422))
def read(pipeline: PipelineDep, limit: PageSize = 100, before: Before = None) -> AuditPage:
    """Read who ingested, deleted, created and revoked what, the newest first, in pages.

    It needs the role admin. Entries have names and ids, and no texts. An admin whose key is limited to collections
    reads what is about these, and what was done with the own key.
    """
    return pipeline.audit.page(pipeline.principal, limit, before)
