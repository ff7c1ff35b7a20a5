"""One answer at a time in a session: who comes later waits, or is refused.

Knows sessions and patience; knows no prompts and no HTTP.
"""

from __future__ import annotations

import time

import anyio
import anyio.to_thread

from rag_service.errors import Conflict
from workers.sessions.sessions import Sessions

FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.3
"""Seconds between two looks at a session that is busy: they grow from one to the other."""


async def claim(
    sessions: Sessions, tenant: str, session_id: str, answer_id: str, *, patience_s: float | None = None
) -> None:
    """Take a session's next turn for an answer.

    Args:
        patience_s: seconds to wait for the answer that has it; None to be refused at once.

    Raises:
        Conflict: another answer has it (still); `session_busy`, with that one's id and Retry-After.
    """
    deadline = time.monotonic() + (patience_s or 0.0)
    pause = FIRST_LOOK_S
    while True:
        holder = await anyio.to_thread.run_sync(sessions.claim, tenant, session_id, answer_id)
        if holder is None:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise busy(session_id, holder, waited=patience_s is not None)
        await anyio.sleep(min(pause, left))
        pause = min(pause * 1.5, LAST_LOOK_S)


def check_room(sessions: Sessions, tenant: str, session_id: str, most_tokens: int) -> None:
    """Raises Conflict where a session holds as many tokens as it may; `session_full`."""
    size = sessions.size(tenant, session_id)
    if size >= most_tokens:
        raise Conflict(
            f"The session {session_id} holds {size:,} tokens, and sessions may hold {most_tokens:,} here: begin "
            "another one.",
            "session_full",
            tokens=size,
            most_tokens=most_tokens,
        )


def busy(session_id: str, answer_id: str | None = None, *, waited: bool = False) -> Conflict:
    """The refusal of a request whose session's next turn is another answer's."""
    still = "still" if waited else "just now"
    extra = {} if answer_id is None else {"answer_id": answer_id}
    return Conflict(
        f"The session {session_id} is {still} busy with another answer, and its turns come one after the other: send "
        "the request again when that one is finished, let `on_conflict` be `wait`, or begin another session.",
        "session_busy",
        retry_after=5 if waited else 1,
        **extra,
    )
