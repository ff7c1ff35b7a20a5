"""A message as the events of its stream.

A grounded answer's blocks stay open until its end, because only then it is known what each of them cites: text comes
first, then each block's citations and its stop. Knows Anthropic's events; knows no pipeline.
"""

from __future__ import annotations

import json
from typing import Any

from rag_service.anthropic.message import MessageForm, text_block, tool_use, written_input
from rag_service.anthropic.text_blocks import cited
from rag_service.contract.answer import Answer
from rag_service.replying.forced_calls import CallReader
from rag_service.replying.written_calls import Withheld

Event = dict[str, Any]
PING: Event = {"type": "ping"}


class StreamedMessage:
    """The stream of one answer.

    Args:
        answer_id: names the message.
    """

    def __init__(self, form: MessageForm, answer_id: str) -> None:
        self._form = form
        self._answer_id = answer_id
        self._reader = form.reader(answer_id)
        self._text = form.blocks()
        self._opened = 0
        """Number of blocks that began."""

    def start(self, input_tokens: int) -> Event:
        return {"type": "message_start", "message": self._form.head(self._answer_id, input_tokens)}

    def push(self, text: str) -> list[Event]:
        """What a text adds."""
        if isinstance(self._reader, CallReader):
            return [event for item in self._reader.push(text) for event in self._call(item)]
        return self._shown(self._reader.push(text) if isinstance(self._reader, Withheld) else text)

    def end(self, answer: Answer, stopped_at: str | None) -> list[Event]:
        """What comes after the last text. Arguments as `MessageForm.message`."""
        rest, calls = self._form.split(answer)
        last = self._reader.rest(rest.answer) if isinstance(self._reader, Withheld) else ""
        events = self._shown(last, last=True)
        for index, citations in enumerate(cited(rest, self._text.spans)):
            events += [_delta(index, {"type": "citations_delta", "citation": one}) for one in citations]
            events.append(_stop(index))
        if not isinstance(self._reader, CallReader):
            for call in calls:
                events += [self._begin({**call, "input": {}}), self._argument(written_input(call))]
                events.append(_stop(self._opened - 1))
        elif calls:
            events.append(_stop(self._opened - 1))
        ending = self._form.ending(answer, rest, calls, stopped_at)
        return [
            *events,
            {"type": "message_delta", "delta": ending, "usage": self._form.usage(answer)},
            {"type": "message_stop"},
        ]

    def _shown(self, text: str, last: bool = False) -> list[Event]:
        events: list[Event] = []
        for index, piece in self._text.push(text, last):
            if index == self._opened:
                events.append(self._begin(text_block()))
            events.append(_delta(index, {"type": "text_delta", "text": piece}))
        return events

    def _call(self, item: dict[str, Any]) -> list[Event]:
        """An item of `CallReader.push`: the beginning of a call, or more of its arguments."""
        if "id" not in item:
            return [self._argument(item["function"]["arguments"])]
        ended = [_stop(self._opened - 1)] if self._opened else []
        return [*ended, self._begin(tool_use(item["id"], item["function"]["name"]))]

    def _argument(self, text: str) -> Event:
        return _delta(self._opened - 1, {"type": "input_json_delta", "partial_json": text})

    def _begin(self, block: dict[str, Any]) -> Event:
        self._opened += 1
        return {"type": "content_block_start", "index": self._opened - 1, "content_block": block}


def event_text(event: Event) -> str:
    """An event as text of server-sent events."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _delta(index: int, delta: dict[str, Any]) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}
