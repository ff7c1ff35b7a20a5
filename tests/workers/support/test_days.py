"""Days of the week in several languages, and what lies between the ends of a range."""

from __future__ import annotations

import pytest

from workers.support.words.days import days_in


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Tuesday to Friday", {1, 2, 3, 4}),
        ("freitags bis sonntags", {4, 5, 6}),
        ("vrijdag t/m maandag", {4, 5, 6, 0}),
        ("lunes a miércoles", {0, 1, 2}),
        ("on Mondays and Thursdays", {0, 3}),
        ("at weekends", {5, 6}),
        ("täglich", set(range(7))),
        ("Sunday – Tuesday", {6, 0, 1}),
        ("from Monday, and on Wednesday", {0, 2}),
        ("Room 7, in May", set()),
    ],
)
def test_days_are_read(text: str, days: set[int]) -> None:
    assert days_in(text) == days
