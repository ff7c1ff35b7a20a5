"""An answer's events as a client sees them, and how a broken stream is resumed.

Sends nothing and waits for nothing, so that both clients share it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from httpx_sse import ServerSentEvent

from rag_service.client import calls
from rag_service.client.calls import Call
from rag_service.client.errors import AnswerFailed, RagConnectionError, RagError, RagProblem, StreamBroken
from rag_service.client.transport import Attempts
from rag_service.contract.answer import Answer, PassageOut

RESUMES = 20
"""Failed attempts in a row to resume a stream after which it is given up."""


@dataclass(frozen=True)
class ServerEvent:
    """One event as sent. `data` is parsed JSON, or the text if that is not JSON (`[DONE]`)."""

    id: str | None
    name: str
    data: Any


ENDED = ServerEvent(None, "ended", None)
"""Stands for a response of 204: every event was seen already."""


@dataclass(frozen=True)
class Passages:
    """The first event: the passages that the answer rests on. Its `id` resumes after it.

    `retrieval_query` is the search query: the question, or its rewriting; None without a search. `passages_left` and
    `turns_left` count the passages of earlier turns, and the earlier turns, that were dropped from the full window,
    `turns_outdated` those left out because passages of theirs have changed, `turns_unsupported` because of a warning.
    """

    id: str | None
    answer_id: str
    session_id: str
    passages: tuple[PassageOut, ...]
    retrieval_query: str | None = None
    passages_left: int = 0
    turns_left: int = 0
    turns_outdated: int = 0
    turns_unsupported: int = 0


@dataclass(frozen=True)
class Token:
    """Text that is final. `source` is the origin of the step's first copied token; None if no token was copied."""

    id: str | None
    text: str
    source: dict[str, Any] | None = None


@dataclass(frozen=True)
class Restart:
    """The answer starts again from its beginning: drop the text so far. Only answers of model servers can."""

    id: str | None
    reason: str


@dataclass(frozen=True)
class Done:
    """The last event: the whole answer, with citations."""

    id: str | None
    answer: Answer


Event = Passages | Token | Restart | Done


def typed(event: ServerEvent) -> Event | None:
    """An event as an object; None for an event that this version does not know.

    Raises:
        AnswerFailed: the event says that the answer failed.
    """
    data = event.data
    match event.name:
        case "passages":
            passages = tuple(PassageOut.model_validate(passage) for passage in data["passages"])
            counts = ("passages_left", "turns_left", "turns_outdated", "turns_unsupported")
            left = [int(data.get(name, 0)) for name in counts]
            ids = data["answer_id"], data["session_id"]
            return Passages(event.id, *ids, passages, data.get("retrieval_query"), *left)
        case "token":
            return Token(event.id, data["text"], data.get("source"))
        case "restart":
            return Restart(event.id, data["reason"])
        case "done":
            return Done(event.id, Answer.model_validate(data))
        case "error":
            raise AnswerFailed(int(data.get("status", 500)), data)
    return None


def server_event(event: ServerSentEvent) -> ServerEvent | None:
    """An event with its data parsed; None for an event without data."""
    if not event.data:
        return None
    try:
        data = json.loads(event.data)
    except ValueError:
        data = event.data
    return ServerEvent(event.id or None, event.event or "message", data)


class Resumption:
    """The state of a stream that can be resumed: what to send next, which events are new, and whether to go on.

    Args:
        call: starts the stream, or resumes it.
        attempts: of the call that starts it.
        answer_id, last: of a stream to resume: the answer, and the last event seen.
    """

    ends_when_closed = False

    def __init__(
        self, call: Call[Any], url: str, attempts: Attempts, answer_id: str | None = None, last: str | None = None
    ) -> None:
        self.call = call
        self._attempts = attempts
        self.answer_id = answer_id
        self.last = last
        self.ended = False
        self._url = url
        self._failures = 0

    def is_new(self, event: ServerEvent) -> bool:
        """Whether to pass an event on. Once the answer is known, an event without an id says that it waits, or that
        the stream broke."""
        if event is ENDED:
            self.ended = True
        if event.name == "waiting":  # it may have no id of its own, and so that of the event before it
            self.last = event.id or self.last
            return True
        if event.id is None and self.answer_id is not None:
            return False
        if event.id is not None:
            if self.last is not None and _position(event.id) <= _position(self.last):
                return False
            self.last, self._failures = event.id, 0
        if self.answer_id is None and isinstance(event.data, dict):
            self.answer_id = event.data.get("answer_id")
        self.ended = event.name in ("done", "error")
        return True

    def pause(self, error: RagError | None) -> float:
        """Seconds to wait before `call` is sent.

        Args:
            error: why the stream broke or could not start; None if it ended early without an error.

        Raises:
            RagError: the stream cannot be resumed, or too many attempts failed.
        """
        if self.answer_id is None:
            if error is None:
                raise RagConnectionError(f"The stream from {self._url} ended before the answer did.", sent=True)
            return self._attempts.pause(error)
        if isinstance(error, RagProblem) and error.status not in (429, 502, 503, 504):
            raise error
        self._failures += 1
        if self._failures > RESUMES:
            raise StreamBroken(
                f"The stream broke off. The answer is not lost: read it at {self._url}/v1/answers/{self.answer_id}",
                self.answer_id,
                self.last,
            ) from error
        self.call = calls.events(self.answer_id, self.last)
        retry_after = error.retry_after if isinstance(error, RagProblem) else None
        return min(0.25 * self._failures, 2.0) if retry_after is None else min(retry_after, 10.0)


class SingleStream:
    """The state of a stream that cannot be resumed: its call is sent again only while no event has come."""

    ends_when_closed = True
    ended = False

    def __init__(self, call: Call[Any], attempts: Attempts) -> None:
        self.call = call
        self._attempts = attempts
        self._started = False

    def is_new(self, event: ServerEvent) -> bool:
        self._started = True
        return True

    def pause(self, error: RagError | None) -> float:
        """As `Resumption.pause`."""
        assert error is not None  # a stream that closed without an error has ended
        if self._started:
            raise error
        return self._attempts.pause(error)


def _position(entry_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry_id.split("-") if part.isdigit())
