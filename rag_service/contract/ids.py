"""Path and query parameters: ids and page bounds.

No object can have an id that does not match its pattern, so a path with such an id gives 404 without a lookup.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator

from rag_service.contract.id_patterns import DOCUMENT_ID, HEX_ID, KEY_ID, MODEL_ID, SESSION_ID
from rag_service.errors import NotFound


def unknown_answer(answer_id: str) -> NotFound:
    return NotFound(
        f"There is no answer {answer_id[:80]!r}. It was erased, has expired, or never existed. "
        "GET /v1/sessions/ID lists the answers of a session.",
        "unknown_answer",
    )


def no_feedback(answer_id: str) -> NotFound:
    return NotFound(
        f"There is no feedback on the answer {answer_id[:80]!r}. POST one to the same address.", "unknown_feedback"
    )


def unknown_session(session_id: str) -> NotFound:
    return NotFound(
        f"There is no session {session_id[:80]!r}. It was erased, has expired, or never existed. "
        "GET /v1/sessions lists all sessions.",
        "unknown_session",
    )


def unknown_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job {job_id[:80]!r}. It has expired or never existed.", "unknown_job")


def unknown_document(document_id: str) -> NotFound:
    return NotFound(
        f"There is no document {document_id[:80]!r}. An id has 1 to 200 characters, without '/' and control "
        "characters. GET /v1/collections/NAME/documents lists the documents of a collection.",
        "unknown_document",
    )


def unknown_model(model: str) -> NotFound:
    return NotFound(f"There is no model {model[:80]!r}. GET /v1/models lists all models.", "unknown_model")


def unknown_key(key_id: str) -> NotFound:
    return NotFound(
        f"There is no key {key_id[:80]!r} that you can revoke. GET /v1/keys lists those that you can.", "unknown_key"
    )


def _matching(pattern: str, not_found: Callable[[str], NotFound]) -> AfterValidator:
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"))

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise not_found(value)
        return value

    return AfterValidator(check)


def _schema(pattern: str) -> dict[str, str]:
    return {"pattern": pattern}


AnswerPath = Annotated[str, Path(json_schema_extra=_schema(HEX_ID)), _matching(HEX_ID, unknown_answer)]
JobPath = Annotated[str, Path(json_schema_extra=_schema(HEX_ID)), _matching(HEX_ID, unknown_job)]
SessionPath = Annotated[str, Path(json_schema_extra=_schema(SESSION_ID)), _matching(SESSION_ID, unknown_session)]
DocumentPath = Annotated[str, Path(json_schema_extra=_schema(DOCUMENT_ID)), _matching(DOCUMENT_ID, unknown_document)]
KeyPath = Annotated[str, Path(json_schema_extra=_schema(KEY_ID)), _matching(KEY_ID, unknown_key)]
ModelPath = Annotated[str, Path(json_schema_extra=_schema(MODEL_ID)), _matching(MODEL_ID, unknown_model)]

PageSize = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]
After = Annotated[str, Query(max_length=200)]
