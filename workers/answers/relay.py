"""What an engine's steps become in an answer's stream: its ids and its text, each once.

Knows text streams and events; knows no prompt and no scheduling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from workers.broker.messages import Logprob, TokenEvent, TokenOrigin
from workers.broker.progress import FinishReason
from workers.errors import QueueUnavailable, StreamAhead
from workers.sessions.streams import AnswerStream
from workers.tokens.text_stream import TextStream

if TYPE_CHECKING:
    from decoder import TokenSource
    from decoder.sampling.logprobs import TokenLogprob

PATIENCE_S = 60.0
"""Seconds for which events wait while Redis is away, before the task goes back to the queue."""


class Committed(Protocol):
    """What was committed together: a step of our own engine (`decoder.Step`), or text of a model server."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def sources(self) -> Sequence[TokenSource | None]: ...

    @property
    def finish_reason(self) -> FinishReason | None: ...

    @property
    def logprobs(self) -> Sequence[TokenLogprob]: ...


@dataclass
class Relay:
    """Turns steps into events of one stream, each id once."""

    stream: AnswerStream
    text_stream: TextStream
    wait: Callable[[float], bool]
    """Waits some seconds; True if the worker is closing."""
    streamed: Sequence[TokenEvent] = ()
    """The stream's token events before this worker."""
    held: bool = False
    """Whether nothing is written until `show`."""

    def __post_init__(self) -> None:
        self.ids = [token for event in self.streamed for token in event.ids]
        self.texts = [self.text_stream.push(token)[0] for token in self.ids]
        self.sources = [source for event in self.streamed for source in event.sources]
        self.logprobs = [measured for event in self.streamed for measured in event.logprobs or ()]
        self.pending = ""
        self.written = len(self.ids)
        """Number of ids in the stream."""
        self.finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts) + self.pending

    def take(self, step: Committed) -> None:
        """Add a step's tokens up to the end of the text, and write the new ones to the stream."""
        for token, source in zip(step.tokens, step.sources, strict=True):
            text, stopped = self.text_stream.push(token)
            self.ids.append(token)
            self.texts.append(text)
            self.sources.append(_origin(source))
            if stopped:
                self.finish_reason = "stop"
                break
        taken = len(self.ids) - len(self.logprobs) if step.logprobs else 0
        self.logprobs += [_logprob(measured) for measured in step.logprobs[:taken]]
        self.finish_reason = self.finish_reason or step.finish_reason
        if self.finish_reason is not None:
            rest = self.text_stream.flush()
            # The last id carries the rest, unless the answer was cancelled, which can happen after any id. A worker
            # that streamed the last id may have died before it wrote the end.
            rest_streamed = sum(len(event.text) for event in self.streamed) > sum(map(len, self.texts))
            if (step.tokens and self.finish_reason != "cancelled") or (rest_streamed and not step.tokens):
                self.texts[-1] += rest
            else:
                self.pending = rest
        self.write()

    def take_over(self, other: Relay) -> None:
        """What another relay holds, in place of the answer that is held back."""
        self.ids, self.texts, self.pending = other.ids, other.texts, other.pending
        self.sources, self.logprobs, self.finish_reason = other.sources, other.logprobs, other.finish_reason

    def replace(self, ids: Sequence[int], texts: Sequence[str]) -> None:
        """Another answer in place of the one that is held back; it ends as a complete one."""
        self.ids, self.texts, self.pending = list(ids), list(texts), ""
        self.sources, self.logprobs = [None] * len(self.ids), []
        if self.ids:
            self.finish_reason = "stop"

    def show(self) -> None:
        """Write what was held back."""
        self.held = False
        self.write()

    def write(self) -> None:
        while not self.held and self.written < len(self.ids):
            first = self.written
            event = TokenEvent(
                t=first,
                ids=self.ids[first:],
                text="".join(self.texts[first:]),
                sources=self.sources[first:],
                logprobs=self.logprobs[first:] if self.logprobs else None,
            )
            try:
                self.patiently(partial(self.stream.write, event))
                self.written = len(self.ids)
            except StreamAhead as ahead:  # the reply to a write was lost, or Redis lost its last second
                self.written = ahead.streamed

    def patiently(self, write: Callable[[], Any]) -> None:
        """Repeat a write while Redis is away. Raises QueueUnavailable if Redis stays away."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                write()
                return
            except QueueUnavailable:
                if time.monotonic() > deadline or self.wait(0.25):
                    raise


def _origin(source: TokenSource | None) -> TokenOrigin | None:
    if source is None:
        return None
    return TokenOrigin(drafter=source.drafter, segment=source.segment, offset=source.offset)


def _logprob(measured: TokenLogprob) -> Logprob:
    return Logprob(logprob=measured.logprob, top=list(measured.top))
