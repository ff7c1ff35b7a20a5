"""/v1/sessions: list, read, erase."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rag_service.deps import READER, PipelineDep
from rag_service.errors import NotFound
from rag_service.refusals import refusals
from rag_service.schemas import PassageOut, Session, SessionList, SessionMemory, SessionSummary, Turn

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], dependencies=[READER])


@router.get("", responses=refusals(422))
def list_sessions(
    pipeline: PipelineDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100, offset: Annotated[int, Query(ge=0)] = 0
) -> SessionList:
    """Sessions, the latest change first."""
    found = pipeline.sessions.list(pipeline.principal.owner, limit, offset)
    return SessionList(sessions=[SessionSummary(**summary) for summary in found])


@router.get("/{session_id}", responses=refusals(404))
def read(session_id: str, pipeline: PipelineDep) -> Session:
    """A session's finished turns, oldest first, and what it takes in Redis."""
    if not pipeline.sessions.exists(pipeline.principal.owner, session_id):
        raise _unknown(session_id)
    turns = [
        Turn(
            answer_id=turn.answer_id,
            base=turn.base,
            instruction=turn.instruction,
            question=turn.question,
            retrieval_query=turn.retrieval_query,
            answer=turn.segments[-1].text,
            passages=[PassageOut(**passage) for passage in turn.passages],
            created=turn.created,
        )
        for turn in pipeline.sessions.turns(pipeline.principal.owner, session_id)
    ]
    memory = SessionMemory(**pipeline.sessions.memory(pipeline.principal.owner, session_id))
    return Session(session_id=session_id, turns=turns, memory=memory)


@router.delete("/{session_id}", status_code=204, responses=refusals(404))
def erase(session_id: str, pipeline: PipelineDep) -> None:
    """Erase everything kept for a session: its turns and all its answers. One that is running stops."""
    if not pipeline.sessions.erase(pipeline.principal.owner, session_id):
        raise _unknown(session_id)


def _unknown(session_id: str) -> NotFound:
    return NotFound(
        f"There is no session {session_id[:80]!r}: it was erased, has expired, or never began; "
        "GET /v1/sessions lists those there are.",
        "unknown_session",
    )
