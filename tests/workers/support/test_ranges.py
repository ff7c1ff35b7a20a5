"""Ranges of numbers in words and signs of several languages."""

from __future__ import annotations

import math

import pytest

from workers.support.ranges import Range


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("2 to 5 kg", 2, 5),
        ("4–11", 4, 11),
        ("von 6 bis 12 Jahren", 6, 12),
        ("6 tot 12 jaar", 6, 12),
        ("between 1,200 and 5,000", 1200, 5000),
        ("2 kg to 5 kg", 2, 5),
        ("0,5 bis 2,5 m", 0.5, 2.5),
        ("up to 2 kg", -math.inf, 2),
        ("bis zu 5 kg", -math.inf, 5),
        ("< 10", -math.inf, 10),
        ("18+", 18, math.inf),
        ("ab 65", 65, math.inf),
        ("65 and over", 65, math.inf),
        ("Groups of 10 or more", 10, math.inf),
    ],
)
def test_ranges_are_read(text: str, low: float, high: float) -> None:
    assert Range.read(text) == Range(low, high)


@pytest.mark.parametrize(
    "text", ["", "Room 12", "A-17", "2026", "Line 3 to the coast", "9:00 to 12:00", "5 to 2", "1.000.000+", "all"]
)
def test_others_are_none(text: str) -> None:
    assert Range.read(text) is None


def test_both_ends_belong_to_a_range() -> None:
    assert [number for number in (1.9, 2, 3, 5, 5.01) if Range(2, 5).has(number)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("text", "value"),
    [("35.00", 35), ("€ 4,50", 4.5), ("120 euros", 120), ("T-101", None), ("2 to 5", None), ("9:30", None), ("", None)],
)
def test_a_number_may_have_a_unit(text: str, value: float | None) -> None:
    assert Range.value(text) == value
