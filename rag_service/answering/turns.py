"""One answer at a time in a session: a later request waits or is rejected.

Knows sessions and time limits; knows no prompts and no HTTP.
"""

from __future__ import annotations

import time

import anyio
import anyio.to_thread

from rag_service.errors import Conflict
from workers.sessions.sessions import Sessions

FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.3
"""First and longest pause in seconds between two tries to claim a busy session."""


async def claim(
    sessions: Sessions, owner: str, session_id: str, answer_id: str, *, patience_s: float | None = None
) -> None:
    """Take a session's next turn for an answer.

    Args:
        patience_s: seconds to wait for the answer that holds the turn; None does not wait.

    Raises:
        Conflict: another answer holds the turn; `session_busy`, with that answer's id and Retry-After.
    """
    deadline = time.monotonic() + (patience_s or 0.0)
    pause = FIRST_LOOK_S
    while True:
        holder = await anyio.to_thread.run_sync(sessions.claim, owner, session_id, answer_id)
        if holder is None:
            return
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise busy(session_id, holder, waited=patience_s is not None)
        await anyio.sleep(min(pause, remaining))
        pause = min(pause * 1.5, LAST_LOOK_S)


def check_room(sessions: Sessions, owner: str, session_id: str, most_tokens: int) -> None:
    """Raises Conflict (`session_full`) if a session holds as many tokens as it may."""
    size = sessions.size(owner, session_id)
    if size >= most_tokens:
        raise Conflict(
            f"The session {session_id} holds {size:,} tokens, and a session may hold {most_tokens:,} here. Start "
            "another session.",
            "session_full",
            tokens=size,
            most_tokens=most_tokens,
        )


def busy(session_id: str, answer_id: str | None = None, *, waited: bool = False) -> Conflict:
    """The error of a request whose session works on another answer."""
    still = "still" if waited else "just now"
    extra = {} if answer_id is None else {"answer_id": answer_id}
    return Conflict(
        f"The session {session_id} is {still} busy with another answer, and its turns come one after the other. Send "
        "the request again when that answer is finished, set `on_conflict` to `wait`, or start another session.",
        "session_busy",
        retry_after=5 if waited else 1,
        **extra,
    )
