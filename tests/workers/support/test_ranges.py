"""Ranges of numbers in words and signs of several languages."""

from __future__ import annotations

import math

import pytest

from workers.support.passages.ranges import Measured, Range


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


@pytest.mark.parametrize(
    ("sentence", "low", "high", "unit", "down"),
    [
        ("Free up to 30 days before arrival.", 30, math.inf, "days", True),
        ("From 7 days before arrival we charge 80 percent.", -math.inf, 7, "days", True),
        ("At least 10 days before.", 10, math.inf, "days", True),
        ("Von 29 bis 8 Tagen vor der Anreise.", 8, 29, "tagen", True),
        ("Tot 14 dagen voor aankomst is annuleren gratis.", 14, math.inf, "dagen", True),
        ("A stay up to 12 years.", -math.inf, 12, "years", False),
    ],
)
def test_ranges_of_sentences_have_units_and_may_count_down(
    sentence: str, low: float, high: float, unit: str, down: bool
) -> None:
    assert Range.all(sentence) == [Measured(Range(low, high), unit, down)]


@pytest.mark.parametrize(
    ("sentence", "without", "within"),
    [
        ("Less than 8 days before arrival we charge.", 8, 7),
        ("Groups of more than 20 persons.", 20, 21),
        ("Over 65", 65, 66),
        ("< 10", 10, 9.5),
        ("Kinder unter 6 Jahren", 6, 5),
        ("Kinderen onder 6 jaar", 6, 5),
        ("über 70", 70, 71),
    ],
)
def test_below_and_above_leave_the_number_itself_out(sentence: str, without: float, within: float) -> None:
    one = Range.read(sentence)
    assert one is not None
    assert [one.has(number) for number in (without, within)] == [False, True]
    assert [measured.range for measured in Range.all(sentence)] == [one]


@pytest.mark.parametrize(
    ("text", "of_persons"),
    [
        ("Children under 9 pay half.", True),
        ("Jugendliche unter 16 Jahren dürfen hinein.", True),
        ("only to people who are 16 or older", True),
        ("Free up to 30 days before arrival.", False),
        ("Parcels under 9 go by bicycle.", False),
    ],
)
def test_a_range_behind_people_is_of_ages(text: str, of_persons: bool) -> None:
    assert [one.of_persons for one in Range.all(text)] == [of_persons]


@pytest.mark.parametrize(
    "question",
    ["May I hire it if I am 15?", "Ich bin 15. Darf ich hinein?", "Ik ben 15, mag ik helpen?", "Is 15 enough?"],
)
def test_an_age_needs_no_unit(question: str) -> None:
    found = [(one.range.low, one.of_persons) for one in Range.sizes(question) if one.of_persons]
    assert found == ([] if question == "Is 15 enough?" else [(15, True)])


def test_a_sentence_may_have_several_ranges_or_none() -> None:
    assert [one.unit for one in Range.all("Up to 5 kg, or from 6 to 9 litres.")] == ["kg", "litres"]
    assert Range.all("Version 5.1.2 of 1.3.2026, room 7, at 9:30.") == []


def test_the_sizes_of_a_question_have_units() -> None:
    assert Range.sizes("What if I cancel 5 days before, with 2 dogs in room 12?") == [
        Measured(Range(5, 5), "days", True),
        Measured(Range(2, 2), "dogs", False),
    ]
