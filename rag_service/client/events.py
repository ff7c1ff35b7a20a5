"""An answer's events as a client sees them, and how a broken stream goes on where it broke off.

Knows server-sent events and their ids; sends nothing and waits for nothing, so that both clients share it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from httpx_sse import ServerSentEvent

from rag_service.client.calls import Call
from rag_service.client.errors import AnswerFailed, RagConnectionError, RagError, RagProblem, StreamBroken
from rag_service.client.transport import Attempts
from rag_service.contract.schemas import Answer, PassageOut

RESUMES = 20
"""How often an interrupted stream is taken up again in a row before giving up."""


@dataclass(frozen=True)
class ServerEvent:
    """One event as sent; `data` is parsed JSON, or the text where it is none (`[DONE]`)."""

    id: str | None
    name: str
    data: Any


ENDED = ServerEvent(None, "ended", None)
"""Stands for an answer of 204: every event was seen already."""


@dataclass(frozen=True)
class Passages:
    """The first event: what the answer will rest on. `id` resumes behind it.

    `retrieval_query` is what passages were looked for with: the question, or what it was rewritten to; None where none
    were looked for. `passages_left`, `turns_left`: how many passages of earlier turns, and earlier turns, left the full
    window.
    """

    id: str | None
    answer_id: str
    session_id: str
    passages: tuple[PassageOut, ...]
    retrieval_query: str | None = None
    passages_left: int = 0
    turns_left: int = 0


@dataclass(frozen=True)
class Token:
    """Text that is final. `source` says where the step's first copied token came from; None if none was copied."""

    id: str | None
    text: str
    source: dict[str, Any] | None = None


@dataclass(frozen=True)
class Done:
    """The last event: the whole answer, with citations."""

    id: str | None
    answer: Answer


Event = Passages | Token | Done


def typed(event: ServerEvent) -> Event | None:
    """An event as an object; None for one that this version does not know.

    Raises:
        AnswerFailed: it says that the answer failed.
    """
    data = event.data
    match event.name:
        case "passages":
            passages = tuple(PassageOut.model_validate(passage) for passage in data["passages"])
            looked = data.get("retrieval_query"), data.get("passages_left", 0), data.get("turns_left", 0)
            return Passages(event.id, data["answer_id"], data["session_id"], passages, *looked)
        case "token":
            return Token(event.id, data["text"], data.get("source"))
        case "done":
            return Done(event.id, Answer.model_validate(data))
        case "error":
            raise AnswerFailed(int(data.get("status", 500)), data)
    return None


def server_event(event: ServerSentEvent) -> ServerEvent | None:
    """An event with its data as JSON; None for one without data."""
    if not event.data:
        return None
    try:
        data = json.loads(event.data)
    except ValueError:
        data = event.data
    return ServerEvent(event.id or None, event.event or "message", data)


class Resumption:
    """Where a stream is: what to send, which events are new, and whether to go on.

    Args:
        call: what begins the stream, or takes it up.
        attempts: of the call that begins it.
        answer_id, last: of a stream that is taken up: the answer, and the last event seen.
    """

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

    @property
    def begun(self) -> bool:
        """Whether the answer's id is known, so that its stream can be taken up."""
        return self.answer_id is not None

    def is_new(self, event: ServerEvent) -> bool:
        """Whether to hand an event on. One without an id, once the answer is known, only says that the stream broke."""
        if event is ENDED:
            self.ended = True
        if event.id is None and self.begun:
            return False
        if event.id is not None:
            if self.last is not None and _place(event.id) <= _place(self.last):
                return False
            self.last, self._failures = event.id, 0
        if self.answer_id is None and isinstance(event.data, dict):
            self.answer_id = event.data.get("answer_id")
        self.ended = event.name in ("done", "error")
        return True

    def pause(self, error: RagError | None) -> float:
        """The stream broke (`error`, or None where it just ended), or could not begin or be taken up.

        Returns the seconds to wait before `call` is sent.

        Raises:
            RagError: it cannot be taken up, or not any more.
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
        self.call = taking_up(self.answer_id, self.last)
        told = error.retry_after if isinstance(error, RagProblem) else None
        return min(0.25 * self._failures, 2.0) if told is None else min(told, 10.0)


def taking_up(answer_id: str, last: str | None) -> Call[Any]:
    """What asks for an answer's events behind the one with the id `last`."""
    return Call("GET", f"/v1/answers/{answer_id}/events", headers={"Last-Event-ID": last or "0-0"})


def _place(entry_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry_id.split("-") if part.isdigit())
