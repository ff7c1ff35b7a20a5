"""The base of request bodies: exact JSON, no unknown fields, and sentences that say what to do.

Knows JSON values and spelling; knows no endpoint.
"""

from __future__ import annotations

import difflib
import math
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

MAX_DEPTH = 32
"""Deepest nesting of a request body."""
MAX_VALUES = 250_000
"""Most strings, numbers, lists and objects in a request body, all told."""


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
        close = difflib.get_close_matches(name[:80], known, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(known)}"
        return f"there is no field {name[:80]!r} here; {advice}"


def check_json(body: Any) -> None:
    """Refuse what JSON cannot carry on (numbers that are not finite, lone surrogates), deep nesting and many values.

    Raises:
        PydanticCustomError: the message names the place.
    """
    waiting: list[tuple[Any, str, int]] = [(body, "", 0)]
    seen = 0
    while waiting:
        value, where, depth = waiting.pop()
        seen += 1
        place = f"field {where!r}" if where else "the body"
        if depth > MAX_DEPTH:
            raise PydanticCustomError("too_deep", "the body nests deeper than {most} levels", {"most": MAX_DEPTH})
        if seen + len(waiting) > MAX_VALUES:
            raise PydanticCustomError("too_many", "the body holds more than {most} values", {"most": MAX_VALUES})
        if isinstance(value, float) and not math.isfinite(value):
            reason = f"{place} must be a finite number, not NaN or Infinity"
            raise PydanticCustomError("not_finite", "{reason}", {"reason": reason})
        if isinstance(value, str):
            _check_unicode(value, place)
        elif isinstance(value, dict | list):
            if len(value) > MAX_VALUES:  # none of them is looked at
                raise PydanticCustomError("too_many", "the body holds more than {most} values", {"most": MAX_VALUES})
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if isinstance(key, str):
                    _check_unicode(key, f"a name in {place}")
                    waiting.append((item, f"{where}.{key}" if where else key, depth + 1))
                else:
                    waiting.append((item, f"{where}[{key}]", depth + 1))


def at_most(most: int) -> BeforeValidator:
    """A list or dict of more entries is refused before any of them is validated, with one error."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > most:
            kind = "List" if isinstance(value, list) else "Dictionary"
            reason = f"{kind} should have at most {most} items, not {len(value)}"
            raise PydanticCustomError("too_long", "{reason}", {"reason": reason})
        return value

    return BeforeValidator(check)


def _check_unicode(text: str, place: str) -> None:
    if has_surrogates(text):
        reason = f"{place} holds half of a surrogate pair, which is no character; send valid Unicode"
        raise PydanticCustomError("not_unicode", "{reason}", {"reason": reason})


def has_surrogates(text: str) -> bool:
    """Whether a text cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
