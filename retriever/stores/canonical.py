"""Metadata values in the one form in which they are stored and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Row = tuple[str, str, float | None, int]
"""A key, the value as JSON, the value as a number if it is one, and whether it is an element of a list."""


def canonical(value: Any) -> str:
    """JSON in one form. Raises TypeError or ValueError for what is not plain JSON."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def comparable(value: Any) -> str:
    """As `canonical`, and equal numbers are equal texts: JSON has one type of numbers, so 1.0 is 1."""
    return canonical(_whole(value))


def spellings(value: Any) -> list[str]:
    """The texts that stand for a value in the rows: `comparable`, or `canonical` in those of earlier versions."""
    texts = {comparable(value), canonical(value)}
    number = _number(value)
    if number is not None and number == value:  # else no float is this integer
        texts.add(canonical(number))
    return sorted(texts)


def rows(metadata: Mapping[str, Any]) -> Iterator[Row]:
    """What filters look for in a document's metadata: each value, and each different element of a list."""
    for key, value in metadata.items():
        yield key, comparable(value), _number(value), 0
        if isinstance(value, list):
            for text, element in {comparable(one): one for one in value}.items():
                yield key, text, _number(element), 1


def _whole(value: Any) -> Any:
    """The value with integers for all floats that are whole."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None
