"""Messages to JSON text and back. Any Unicode and any float survives, including `NaN` and `Infinity`."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter

from workers.broker.messages import AnswerEvent

_EVENT: TypeAdapter[AnswerEvent] = TypeAdapter(AnswerEvent)
_M = TypeVar("_M", bound=BaseModel)


def dumps(message: BaseModel) -> str:
    return json.dumps(message.model_dump(), separators=(",", ":"))


def loads(model: type[_M], text: str) -> _M:
    return model.model_validate(json.loads(text))


def load_event(text: str) -> AnswerEvent:
    return _EVENT.validate_python(json.loads(text))


def load_any(text: str | None) -> Any:
    return None if text is None else json.loads(text)
