"""Turns appended to a session without a worker."""

from __future__ import annotations

from typing import Any

from workers.broker import keys
from workers.broker.messages import DoneEvent, TurnRecord
from workers.sessions.streams import SESSION_TTL_S, AnswerStream


def append_turn(client: Any, owner: str, session_id: str, turn: TurnRecord, ttl_s: int = SESSION_TTL_S) -> None:
    """Append a finished turn as a worker does, at the end of its answer."""
    client.hsetnx(keys.answer(owner, turn.answer_id), "status", "running")
    done = DoneEvent(text="", ids=[], finish_reason="stop", usage={}, speculation={}, timings={})
    AnswerStream(client, owner, turn.answer_id, session_ttl_s=ttl_s).finish(done, session_id=session_id, turn=turn)
