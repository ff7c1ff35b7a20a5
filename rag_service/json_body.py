"""The base of request bodies: exact JSON, no unknown fields, and sentences that say what to do.

Knows JSON values and spelling; knows no endpoint.
"""

from __future__ import annotations

import difflib
import math
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

MAX_DEPTH = 32
"""Deepest nesting of a request body."""


class RequestBody(BaseModel):
    """A request body: strict types (no "5" for 5), known fields only, finite numbers, valid Unicode."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, value: Any) -> Any:
        if isinstance(value, dict):
            check_json(value)
            for name in value:
                if name not in cls.model_fields:
                    raise PydanticCustomError("unknown_field", "{reason}", {"reason": cls._unknown(str(name))})
        return value

    @classmethod
    def _unknown(cls, name: str) -> str:
        known = sorted(cls.model_fields)
        close = difflib.get_close_matches(name, known, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(known)}"
        return f"there is no field {name[:80]!r} here; {advice}"


def check_json(value: Any, where: str = "", depth: int = 0) -> None:
    """Refuse what JSON cannot carry on: numbers that are not finite, lone surrogates, very deep nesting.

    Raises:
        PydanticCustomError: the message names the place.
    """
    place = f"field {where!r}" if where else "the body"
    if depth > MAX_DEPTH:
        raise PydanticCustomError("too_deep", "the body nests deeper than {most} levels", {"most": MAX_DEPTH})
    if isinstance(value, float) and not math.isfinite(value):
        reason = f"{place} must be a finite number, not NaN or Infinity"
        raise PydanticCustomError("not_finite", "{reason}", {"reason": reason})
    if isinstance(value, str) and has_surrogates(value):
        reason = f"{place} holds half of a surrogate pair, which is no character; send valid Unicode"
        raise PydanticCustomError("not_unicode", "{reason}", {"reason": reason})
    if isinstance(value, dict):
        for key, item in value.items():
            check_json(key, f"a name in {place}", depth)
            check_json(item, f"{where}.{key}" if where else str(key), depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check_json(item, f"{where}[{number}]", depth + 1)


def has_surrogates(text: str) -> bool:
    """Whether a text cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
