"""Months, and yeses that rest on others than were asked for."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence
from workers.support.words.months import Date, dates_in, is_for_others, months_in, spans_in

SUMMER = "Van 1 april tot 1 oktober mag je twee nachten per week in je tuinhuis slapen. Honden mogen mee."
HEDGES = "Hecken dürfen vom 1. März bis 30. September nicht stark zurückgeschnitten werden."
BUS = "The bus from the station goes from 1 June to 31 October, every hour."
YEAR = "The café is open every Sunday from 11 to 16, all year, except on 25 and 26 December."
POOL = "The pool is open from 15 May to 10 September. Towels are free."


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("from 1 April to 1 October", [{4, 5, 6, 7, 8, 9}]),
        ("von November bis zum 15. Februar", [{11, 12, 1, 2}]),
        ("van 3 mei t/m 4 juni en van september tot en met oktober", [{5, 6}, {9, 10}]),
        ("May – July 2026, in March", [{5, 6, 7}]),
        ("on 5 May", []),
    ],
)
def test_spans(text: str, spans: list[set[int]]) -> None:
    assert [set(one) for one in spans_in(text)] == spans


def test_months_by_themselves() -> None:
    assert months_in("May I come in May, or on 3 June? From July to August we are away.") == {5, 6}
    assert months_in("Darf ich im März und am 2. Mai?") == {3, 5}
    assert months_in("You may come.") == frozenset()


def test_for_others() -> None:
    assert is_for_others(SUMMER, frozenset({12}))
    assert not is_for_others(SUMMER, frozenset({5}))
    assert not is_for_others(SUMMER, frozenset()), "no month was asked for"
    assert not is_for_others(f"{SUMMER} In december ook.", frozenset({12}))


def test_dates_by_themselves() -> None:
    assert dates_in("May I come on 3 June, or May 5th? From 1 July to 4 August we are away.") == {(6, 3), (5, 5)}
    assert dates_in("Darf ich am 2. Mai, im März oder 2026?") == {(5, 2)}


@pytest.mark.parametrize(("day", "others"), [(14, True), (15, False), (31, False)])
def test_dates_at_the_ends_of_spans(day: int, others: bool) -> None:
    assert is_for_others("from 15 May to 10 September", frozenset({5}), frozenset({Date(5, day)})) is others
    assert not is_for_others("from 15 May to 10 September", frozenset({5})), "some of May"
    over_the_year = "von November bis zum 14. Mai"
    assert is_for_others(over_the_year, frozenset({5}), frozenset({Date(5, day)})) is (day > 14)


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "denied"),
    [
        ("Is the pool open on 12 September?", "Yes, the pool is open on 12 September.", POOL, "en", True),
        ("Is the pool open on 8 September?", "Yes, the pool is open on 8 September.", POOL, "en", False),
        ("Does the bus go on 3 November?", "The bus goes on 3 November from the station.", BUS, "en", True),
        ("Does the bus go in November?", "The bus goes in November from the station.", BUS, "en", True),
        ("Does the bus go on 3 June?", "The bus goes on 3 June from the station.", BUS, "en", False),
        ("Does the bus go on 3 November?", "The bus goes from 1 June to 31 October.", BUS, "en", False),
        ("Does the bus go on 3 November?", "The bus does not go on 3 November.", BUS, "en", False),
        ("When does the bus go on 3 November?", "The bus goes every hour.", BUS, "en", False),
        ("Is the pool open on 12 September?", "No, the pool is not open on 12 September.", POOL, "en", False),
        ("Is the pool open on 12 September?", "No, the pool is closed on 12 September.", POOL, "en", False),
        ("Is the pool open on 12 September?", "No, the pool is closed from 3 September on.", POOL, "en", True),
        ("Is the pool open on 8 September?", "No, the pool is not open on 8 September.", POOL, "en", True),
        ("Is the pool open in October?", "No, the pool is not open in October.", POOL, "en", False),
        ("Mag ik in december in mijn tuinhuis slapen?", "Ja, in december mag je in je tuinhuis slapen.",
         SUMMER, "nl", True),
        ("Mag ik in december in mijn tuinhuis slapen?",
         "Ja, van 1 april tot 1 oktober mag je twee nachten per week in je tuinhuis slapen.", SUMMER, "nl", True),
        ("Mag ik in mei in mijn tuinhuis slapen?", "Ja, je mag twee nachten per week in je tuinhuis slapen.",
         SUMMER, "nl", False),
        ("Darf ich die Hecke im April stark zurückschneiden?",
         "Ja, Hecken dürfen stark zurückgeschnitten werden.", HEDGES, "de", True),
        ("Is the pool open in March?", "Yes, the pool is open from 15 May to 10 September.", POOL, "en", True),
        ("Is the pool open in June?", "Yes, the pool is open from 15 May to 10 September.", POOL, "en", False),
        ("Is the café open on Sundays in July?", "Yes, the café is open on Sundays in July.", YEAR, "en", False),
        ("Is the café open on 25 December?", "Yes, the café is open on 25 December.", YEAR, "en", True),
        ("Ist das Café im Juli offen?", "Ja, es ist im Juli offen.", "Das Café ist ganzjährig offen.", "de", False),
    ],
)  # fmt: skip
def test_a_yes_for_other_months(question: str, answer: str, passage: str, language: str, denied: bool) -> None:
    assert Evidence(question, [passage], language).of(answer).denied is denied
