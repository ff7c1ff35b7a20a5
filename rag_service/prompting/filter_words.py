"""A filter on metadata in words that people read, such as `year >= 2020 and team = "hr"`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LONGEST = 120
"""Most characters of a filter in words."""
_SIGNS = {"$eq": "=", "$ne": "!=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_WORDS = {"$in": "in", "$nin": "not in", "$contains": "contains"}


def in_words(filter: Mapping[str, Any]) -> str:
    """Cut off where it is long."""
    words = _conditions(filter)
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


def _conditions(filter: Mapping[str, Any]) -> str:
    return " and ".join(_condition(key, value) for key, value in filter.items())


def _condition(key: str, value: Any) -> str:
    if key in ("$and", "$or"):
        joined = f" {key[1:]} ".join(_grouped(one) for one in value)
        return f"({joined})" if key == "$or" and len(value) > 1 else joined
    if key == "$not":
        return f"not ({_conditions(value)})"
    if not isinstance(value, Mapping):
        return f"{key} = {_value(value)}"
    return " and ".join(
        f"{key} {_SIGNS.get(operator) or _WORDS.get(operator, operator)} {_value(operand)}"
        for operator, operand in value.items()
    )


def _grouped(filter: Mapping[str, Any]) -> str:
    words = _conditions(filter)
    return f"({words})" if len(filter) > 1 else words


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
