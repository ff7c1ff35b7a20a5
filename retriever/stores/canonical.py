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


def rows(metadata: Mapping[str, Any]) -> Iterator[Row]:
    """What filters look for in a document's metadata: each value, and each different element of a list."""
    for key, value in metadata.items():
        yield key, canonical(value), _number(value), 0
        if isinstance(value, list):
            for element in {canonical(one): one for one in value}.values():
                yield key, canonical(element), _number(element), 1


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None
