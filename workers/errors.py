"""The exceptions of this package. Each message says what to do.

WorkersError
├── QueueUnavailable    Redis cannot be reached or rejects work
│   ├── RedisFull       it has no memory left
│   │   └── RedisDiskFull   it cannot write to its disk
│   └── DatabaseUnavailable     PostgreSQL, which has the ingests, cannot be reached or takes no writes
│       └── DatabaseFull    its disk is full
├── AnswerMissing       the answer's record does not exist
├── AnswerEnded         the answer is finished already
├── AnswerTaken         another worker has taken the answer over
├── StreamAhead         the stream already has these ids
├── ClaimLost           the session's next turn belongs to another answer
└── RuntimeClosed       this worker is shutting down
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import kombu.exceptions
import redis.exceptions


class WorkersError(Exception):
    """Base of all errors this package raises on purpose."""


class QueueUnavailable(WorkersError):
    """Redis cannot be reached or takes no work at the moment; the call changed nothing. Try again later."""


class RedisFull(QueueUnavailable):
    """Redis takes no writes because it has no memory left."""


class RedisDiskFull(RedisFull):
    """Redis takes no writes because it cannot save to its disk."""


class DatabaseUnavailable(QueueUnavailable):
    """The PostgreSQL that has the ingests cannot be reached; the call changed nothing. Try again later."""


class DatabaseFull(DatabaseUnavailable):
    """PostgreSQL takes no writes because its disk is full."""


class AnswerMissing(WorkersError):
    """The answer has no record: it was never queued, has expired, or was erased."""

    def __init__(self, answer_id: str) -> None:
        super().__init__(f"there is no answer {answer_id!r}; it was erased or has expired, so ask again")


class AnswerEnded(WorkersError):
    """The answer has its last event; nothing can be added."""

    def __init__(self, answer_id: str) -> None:
        super().__init__(f"the answer {answer_id!r} is finished; nothing can be added to it")


class AnswerTaken(WorkersError):
    """The answer has a later epoch: another worker took it over, and this worker's writes are rejected."""

    def __init__(self, answer_id: str) -> None:
        super().__init__(f"another worker has taken over the answer {answer_id!r}; this one stops")


class StreamAhead(WorkersError):
    """The stream has the first `streamed` ids already; write from there on."""

    def __init__(self, streamed: int) -> None:
        super().__init__(f"the stream already has the answer's first {streamed} ids; continue at t = {streamed}")
        self.streamed = streamed


class ClaimLost(WorkersError):
    """The session's next turn belongs to another answer now."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"the next turn of session {session_id!r} went to another answer; ask again")


class RuntimeClosed(WorkersError):
    """The worker's engine was shut down before the answer was finished."""

    def __init__(self) -> None:
        super().__init__("this worker is shutting down; the answer goes back to the queue")


_DISK_FULL = ("MISCONF", "No space left on device")
_NOT_READY = ("LOADING", "MASTERDOWN", "NOAUTH", "NOREPLICAS")
_AWAY = (
    redis.exceptions.ConnectionError,  # BusyLoadingError and authentication errors are of this kind
    redis.exceptions.TimeoutError,
    kombu.exceptions.OperationalError,
    OSError,
)


@contextmanager
def unavailable() -> Iterator[None]:
    """Raise QueueUnavailable for every error that means Redis is away; other errors pass."""
    try:
        yield
    except redis.exceptions.AuthenticationError as error:
        raise QueueUnavailable(f"Redis rejects the password: {error}; check the redis URL") from error
    except (*_AWAY, redis.exceptions.ResponseError) as error:
        text = str(error)
        if any(phrase in text for phrase in _DISK_FULL):
            raise RedisDiskFull(f"Redis cannot write to its disk: {text}; free space there") from error
        if isinstance(error, redis.exceptions.OutOfMemoryError) or "OOM command not allowed" in text:
            raise RedisFull(f"Redis is out of memory: {text}; raise its maxmemory") from error
        if isinstance(error, redis.exceptions.ReadOnlyError):
            raise QueueUnavailable(f"Redis takes no writes: {text}; point to the primary") from error
        if isinstance(error, _AWAY):
            raise QueueUnavailable(
                f"Redis cannot be reached ({type(error).__name__}: {text}); start it, or check the redis URL"
            ) from error
        if text.startswith(_NOT_READY):
            raise QueueUnavailable(f"Redis takes no work: {text}") from error
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of the engine means that there was no memory left."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )
