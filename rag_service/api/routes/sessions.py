"""/v1/sessions: list, read, erase."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from rag_service.answering.outdated import changed_passages
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.contract.answer import PassageOut
from rag_service.contract.ids import Offset, PageSize, SessionPath, unknown_session
from rag_service.contract.responses import ErasedSessions, Session, SessionList, SessionMemory, SessionSummary, Turn

All = Annotated[
    Literal["true"],
    Query(alias="all", description="Without it nothing is erased: an address whose session id is empty is this one."),
]

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], dependencies=[READER])


@router.get("", responses=error_responses(422))
def list_sessions(pipeline: PipelineDep, limit: PageSize = 100, offset: Offset = 0) -> SessionList:
    """List sessions, the last changed first."""
    summaries = pipeline.sessions.list(pipeline.principal.owner, limit, offset)
    return SessionList(sessions=[SessionSummary(**summary) for summary in summaries])


@router.delete("", responses=error_responses(422))
def erase_all(pipeline: PipelineDep, _all: All) -> ErasedSessions:
    """Erase all that is kept of the key's person: sessions, answers, those outside sessions too. What runs stops.

    Of a key without a person: all that belongs to no person of its tenant. Documents stay, and so do API keys.
    """
    return ErasedSessions(sessions=pipeline.sessions.erase_all(pipeline.principal.owner))


@router.get("/{session_id}", responses=error_responses(404))
def read(session_id: SessionPath, pipeline: PipelineDep) -> Session:
    """Read a session's finished turns, oldest first, and its memory in Redis."""
    owner = pipeline.principal.owner
    if not pipeline.sessions.exists(owner, session_id):
        raise unknown_session(session_id)
    stored = pipeline.names.turns(pipeline.sessions.turns(owner, session_id))
    rated = pipeline.answers.feedback_of([turn.answer_id for turn in stored])
    changed = iter(changed_passages(pipeline.library, [one for turn in stored for one in turn.passages]))
    turns = [
        Turn(
            answer_id=turn.answer_id,
            base=turn.base,
            instruction=turn.instruction,
            question=turn.question,
            retrieval_query=turn.retrieval_query,
            answer=turn.segments[-1].text,
            passages=[PassageOut(**{**one, "changed": next(changed)}) for one in turn.passages],
            created=turn.created,
            feedback=rated.get(turn.answer_id),
        )
        for turn in stored
    ]
    memory = SessionMemory(**pipeline.sessions.memory(owner, session_id))
    return Session(session_id=session_id, turns=turns, memory=memory)


@router.delete("/{session_id}", status_code=204, responses=error_responses(404))
def erase(session_id: SessionPath, pipeline: PipelineDep) -> None:
    """Erase a session with its turns and answers. A running answer stops."""
    if not pipeline.sessions.erase(pipeline.principal.owner, session_id):
        raise unknown_session(session_id)
