"""Numbers in sentences: what they measure or count, and the ranges in which an asked-for number lies."""

from __future__ import annotations

import pytest

from tests.support import weakest_claim
from workers.support.evidence import Evidence, Found

NOTES = """# Night watch

The fire extinguishers are checked every two years, the next time in October 2027. Each pitch may have at most two dogs.
There are three new fire hydrants at the gate. Members get 5 percent off the pitch.
"""
STORNO = """# Stornierung

Bis 30 Tage vor der Anreise ist die Stornierung kostenlos. Von 29 bis 8 Tagen vor der Anreise behalten wir die Anzahlung
ein. Ab 7 Tagen vor der Anreise berechnen wir 80 Prozent des Gesamtpreises.
"""
CANCEL = """# Cancelling

Up to 30 days before arrival cancelling is free of charge. Less than 8 days before arrival we charge 80 percent.
"""


def found(question: str, claim: str, text: str = NOTES, language: str = "en") -> Found:
    return Evidence(question, [text], language).of(claim)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (
            "How many fire hydrants does the site have?",
            "The site has three fire hydrants.",
            "The site has two fire hydrants.",
        ),
        ("How many dogs may a pitch have?", "Two dogs.", "Five dogs."),
        ("How much do members get off the pitch?", "5 percent", "5 euros"),
        ("How often are the extinguishers checked?", "Every two years.", "Every two months."),
    ],
)
def test_a_number_counts_for_what_it_measures(question: str, right: str, wrong: str) -> None:
    assert not found(question, right).denied
    assert found(question, right).evidence > 2 * found(question, wrong).evidence


def test_years_are_no_extinguishers() -> None:
    question, answer = "How many fire extinguishers does the site have?", "The site has two fire extinguishers."
    text = "The fire extinguishers of the site are checked every two years."
    assert found(question, answer, text).denied
    assert not found(question, answer, "The site has two red fire extinguishers.").denied
    assert not found(question, answer, "Fire extinguishers of the site: 2").denied


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (
            "Was geschieht, wenn ich 5 Tage vor der Anreise storniere?",
            "Ab 7 Tagen vor der Anreise berechnen wir 80 Prozent des Gesamtpreises.",
            "Bis 30 Tage vor der Anreise ist die Stornierung kostenlos.",
        ),
        (
            "Was behalten Sie ein, wenn ich 10 Tage vor der Anreise storniere?",
            "Von 29 bis 8 Tagen vor der Anreise behalten wir die Anzahlung ein.",
            "Wir berechnen 80 Prozent des Gesamtpreises.",
        ),
        (
            "Ist die Stornierung 40 Tage vor der Anreise kostenlos?",
            "Ja, bis 30 Tage vor der Anreise ist die Stornierung kostenlos.",
            "Wir berechnen 80 Prozent des Gesamtpreises.",
        ),
    ],
)
def test_a_sentence_about_other_sizes_is_about_something_else(question: str, right: str, wrong: str) -> None:
    assert not found(question, right, STORNO, "de").denied
    assert found(question, wrong, STORNO, "de").denied


def test_days_before_something_are_counted_down() -> None:
    question = "What does it cost to cancel 5 days before arrival?"
    assert not found(question, "80 percent", CANCEL).denied
    assert found(question, "Cancelling is free of charge.", CANCEL).denied
    assert not found(question.replace("5", "31"), "Cancelling is free of charge.", CANCEL).denied


def test_a_range_alone_denies_nothing() -> None:
    text = "Children up to 12 years need an adult."
    assert not found("May a child of 14 years swim alone?", "Children up to 12 years need an adult.", text).denied


def test_how_many_is_answered_by_none() -> None:
    text = "Each pitch may have at most two dogs. Visitors may not bring dogs."
    question = "How many dogs may a visitor bring?"
    assert found(question, "Each pitch may have at most two dogs.", text).denied
    assert not found(question, "Visitors may not bring dogs.", text).denied
    assert not found("How many dogs may a pitch have?", "Each pitch may have at most two dogs.", text).denied


WORMS = "# § 5 Gesundheit\n\nNeue Pferde stehen 10 Tage allein. Die Entwurmung der Pferde erfolgt viermal im Jahr."
MEDICINE = "# Care\n\nThe medicine is given twice a day. It costs 3 euros a day."
HAY = "# Hooi\n\nDe paarden krijgen driemaal per dag hooi. Het kost 2 euro per dag."


@pytest.mark.parametrize(
    ("question", "answer", "passage", "stated"),
    [
        ("Wie oft werden die Pferde entwurmt?", "Die Pferde werden 4 Mal im Jahr entwurmt.", WORMS, True),
        ("Wie oft werden die Pferde entwurmt?", "Vier Mal im Jahr.", WORMS, True),
        ("Wie oft werden die Pferde entwurmt?", "4x im Jahr.", WORMS, True),
        ("Wie oft werden die Pferde entwurmt?", "Die Pferde werden 5 Mal entwurmt.", WORMS, False),
        ("How often is the medicine given?", "Two times a day.", MEDICINE, True),
        ("How often is the medicine given?", "The medicine is given twice a day.", MEDICINE, True),
        ("How often is the medicine given?", "Three times a day.", MEDICINE, False),
        ("Hoe vaak krijgen de paarden hooi?", "De paarden krijgen drie keer per dag hooi.", HAY, True),
        ("Hoe vaak krijgen de paarden hooi?", "De paarden krijgen 2 keer per dag hooi.", HAY, False),
    ],
)
def test_how_often_is_written_in_several_ways(question: str, answer: str, passage: str, stated: bool) -> None:
    judged = weakest_claim.found(question, answer, passage)
    assert not (stated and judged.denied)
    assert judged.evidence > 0.4 if stated else judged.evidence < 0.2
