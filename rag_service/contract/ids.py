"""Ids and page bounds that addresses, queries and bodies name: one pattern for each kind of id.

An id in an address that does not fit its pattern is the id of nothing: 404, before anything is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator

from rag_service.contract.id_patterns import DOCUMENT_ID, HEX_ID, MODEL_ID, SESSION_ID
from rag_service.errors import NotFound


def unknown_answer(answer_id: str) -> NotFound:
    return NotFound(
        f"There is no answer {answer_id[:80]!r}: it was erased, has expired, or was never asked for.", "unknown_answer"
    )


def unknown_session(session_id: str) -> NotFound:
    return NotFound(
        f"There is no session {session_id[:80]!r}: it was erased, has expired, or never began; "
        "GET /v1/sessions lists those there are.",
        "unknown_session",
    )


def unknown_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job {job_id[:80]!r}: it has expired or was never accepted.", "unknown_job")


def unknown_document(document_id: str) -> NotFound:
    return NotFound(
        f"There is no document {document_id[:80]!r}: ids have 1 to 200 characters, without '/' and control "
        "characters; GET on the collection's documents lists those there are.",
        "unknown_document",
    )


def unknown_model(model: str) -> NotFound:
    return NotFound(f"There is no model {model[:80]!r}; GET /v1/models lists those there are.", "unknown_model")


def _fitting(pattern: str, unknown: Callable[[str], NotFound]) -> AfterValidator:
    fits = re.compile(pattern.removeprefix("^").removesuffix("$"))

    def check(value: str) -> str:
        if not fits.fullmatch(value):
            raise unknown(value)
        return value

    return AfterValidator(check)


def _shown(pattern: str) -> dict[str, str]:
    return {"pattern": pattern}


AnswerPath = Annotated[str, Path(json_schema_extra=_shown(HEX_ID)), _fitting(HEX_ID, unknown_answer)]
JobPath = Annotated[str, Path(json_schema_extra=_shown(HEX_ID)), _fitting(HEX_ID, unknown_job)]
SessionPath = Annotated[str, Path(json_schema_extra=_shown(SESSION_ID)), _fitting(SESSION_ID, unknown_session)]
DocumentPath = Annotated[str, Path(json_schema_extra=_shown(DOCUMENT_ID)), _fitting(DOCUMENT_ID, unknown_document)]
ModelPath = Annotated[str, Path(json_schema_extra=_shown(MODEL_ID)), _fitting(MODEL_ID, unknown_model)]

PageSize = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]
After = Annotated[str, Query(max_length=200)]
