"""The base classes of bodies. Requests: strict JSON types, no unknown fields, errors that say what to do.

Knows JSON values and spelling; knows no endpoint.
"""

from __future__ import annotations

import difflib
import math
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

MAX_DEPTH = 32
"""Most levels of nesting in a request body."""
MAX_VALUES = 250_000
"""Most strings, numbers, lists and objects in a request body, together."""


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
        fields = sorted(cls.model_fields)
        similar = difflib.get_close_matches(name[:80], fields, 1)
        advice = f"did you mean {similar[0]!r}?" if similar else f"the fields are {', '.join(fields)}"
        return f"there is no field {name[:80]!r} here; {advice}"


class ResponseBody(BaseModel):
    """The body of a response, or a part of it."""

    model_config = ConfigDict(frozen=True)


def check_json(body: Any) -> None:
    """Check that a body nests at most MAX_DEPTH levels, has at most MAX_VALUES values, and can be written as JSON.

    Raises:
        PydanticCustomError: the body is too deep or too large, or contains NaN, an infinity or a lone surrogate. The
            message names the field.
    """
    pending: list[tuple[Any, str, int]] = [(body, "", 0)]
    checked = 0
    while pending:
        value, path, depth = pending.pop()
        checked += 1
        subject = f"field {path!r}" if path else "the body"
        if depth > MAX_DEPTH:
            raise PydanticCustomError("too_deep", "the body nests deeper than {most} levels", {"most": MAX_DEPTH})
        if checked + len(pending) > MAX_VALUES:
            raise PydanticCustomError("too_many", "the body has more than {most} values", {"most": MAX_VALUES})
        if isinstance(value, float) and not math.isfinite(value):
            reason = f"{subject} must be a finite number, not NaN or Infinity"
            raise PydanticCustomError("not_finite", "{reason}", {"reason": reason})
        if isinstance(value, str):
            _check_unicode(value, subject)
        elif isinstance(value, dict | list):
            if len(value) > MAX_VALUES:  # before its items are counted one by one
                raise PydanticCustomError("too_many", "the body has more than {most} values", {"most": MAX_VALUES})
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if isinstance(key, str):
                    _check_unicode(key, f"a name in {subject}")
                    pending.append((item, f"{path}.{key}" if path else key, depth + 1))
                else:
                    pending.append((item, f"{path}[{key}]", depth + 1))


def at_most(most: int) -> BeforeValidator:
    """A validator that rejects a list or dict of more items with one error, before it validates any item."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > most:
            kind = "List" if isinstance(value, list) else "Dictionary"
            reason = f"{kind} should have at most {most} items, not {len(value)}"
            raise PydanticCustomError("too_long", "{reason}", {"reason": reason})
        return value

    return BeforeValidator(check)


def _check_unicode(text: str, subject: str) -> None:
    if has_surrogates(text):
        reason = f"{subject} contains half of a surrogate pair, which is not a character; send valid Unicode"
        raise PydanticCustomError("not_unicode", "{reason}", {"reason": reason})


def has_surrogates(text: str) -> bool:
    """Whether a text contains surrogates, so that it cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
