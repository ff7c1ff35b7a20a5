"""Messages to JSON text and back. Any Unicode and any float survives, including `NaN` and `Infinity`.

Two versions can share a broker while a deployment is upgraded. A message carries only the fields that differ from their
defaults, so a reader fails on a field that it does not know only where that field matters; the default of a field must
therefore never change. In events unknown fields are ignored: the text of an answer needs none of them.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from workers.broker.messages import AnswerEvent

_TYPE = "type"
_EVENTS: dict[str, type[AnswerEvent]] = {event.model_fields[_TYPE].default: event for event in get_args(AnswerEvent)}
_M = TypeVar("_M", bound=BaseModel)


def fields(message: BaseModel) -> dict[str, Any]:
    """The fields of a message that travel."""
    sent = message.model_dump(exclude_defaults=True)
    if _TYPE in type(message).model_fields:
        sent[_TYPE] = getattr(message, _TYPE)
    return sent


def dumps(message: BaseModel) -> str:
    return json.dumps(fields(message), separators=(",", ":"))


def loads(model: type[_M], text: str) -> _M:
    return model.model_validate(json.loads(text))


def load_event(text: str) -> AnswerEvent | None:
    """An event, without fields that only a newer version knows; None for one of a type that only a newer one knows."""
    event = json.loads(text)
    model = _EVENTS.get(event[_TYPE])
    return None if model is None else model.model_validate(event, extra="ignore")


def load_any(text: str | None) -> Any:
    return None if text is None else json.loads(text)
