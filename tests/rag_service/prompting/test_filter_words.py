"""A filter as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from rag_service.prompting.filter_words import LONGEST, in_words


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"team": "hr"}, 'team = "hr"'),
        ({"year": {"$gte": 2020, "$lt": 2025}}, "year >= 2020 and year < 2025"),
        ({"done": True, "n": {"$ne": 1.5}}, "done = true and n != 1.5"),
        ({"team": {"$in": ["hr", "Köln"]}}, 'team in ["hr", "Köln"]'),
        ({"tags": {"$contains": "new"}}, 'tags contains "new"'),
        ({"$and": [{"a": 1}, {"b": {"$gt": 2}}]}, "a = 1 and b > 2"),
        ({"$or": [{"a": 1, "b": 2}, {"c": 3}], "d": 4}, "((a = 1 and b = 2) or c = 3) and d = 4"),
        ({"$not": {"team": {"$nin": ["hr"]}}}, 'not (team not in ["hr"])'),
    ],
)
def test_a_filter_in_words(filter: dict[str, Any], expected: str) -> None:
    assert in_words(filter) == expected


def test_a_long_filter_is_cut_off() -> None:
    words = in_words({"team": "x" * 500})
    assert len(words) == LONGEST
    assert words.startswith('team = "xxx')
    assert words.endswith("x…")
