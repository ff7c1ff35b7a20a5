"""Messages to JSON text and back. Any Unicode and any float survives, including `NaN` and `Infinity`."""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter

from workers.broker.messages import AnswerEvent

_EVENT: TypeAdapter[AnswerEvent] = TypeAdapter(AnswerEvent)
_TYPES = {event.model_fields["type"].default for event in get_args(AnswerEvent)}
_M = TypeVar("_M", bound=BaseModel)


def dumps(message: BaseModel) -> str:
    return json.dumps(message.model_dump(), separators=(",", ":"))


def loads(model: type[_M], text: str) -> _M:
    return model.model_validate(json.loads(text))


def load_event(text: str) -> AnswerEvent | None:
    """An event; None for one of a type that only a newer version knows."""
    event = json.loads(text)
    return _EVENT.validate_python(event) if event["type"] in _TYPES else None


def load_any(text: str | None) -> Any:
    return None if text is None else json.loads(text)
