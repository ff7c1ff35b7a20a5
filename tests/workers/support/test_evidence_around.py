"""Evidence that needs more than one sentence: the heading above, the paragraph, the other part of an answer."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence, Found
from workers.support.passages import sentences

EVENTS = """## Bicycle brakes for beginners

Wednesday 9 December, 18:00 to 20:30, with Rutger Aalbers. Bring your own bicycle. Children cannot take part.

## Sharpening knives and chisels

Saturday 16 January, 11:00 to 14:00, with Jonas Tellmann. Fee: 18 euros. At most eight places.

## Long repair night

Friday 29 January, 18:00 to midnight. Admission is free, and no registration is needed.
"""
RULES = "## Animals\n\nDogs are allowed in the entrance hall on a lead, but not in the workshop.\n"


def found(question: str, answer: str, text: str = EVENTS) -> Found:
    claims = [answer[start:end] for start, end in sentences.claims(answer)]
    (one,) = Evidence(question, [text]).of_answer(claims)
    return one


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (
            "May children take part in the bicycle brakes workshop?",
            "No, children cannot take part.",
            "Yes, children can take part in the bicycle brakes workshop.",
        ),
        ("May children take part in the bicycle brakes course?", "No.", "Yes."),
        (
            "Is registration needed for the repair night?",
            "No, no registration is needed.",
            "Yes, registration is needed for the repair night.",
        ),
    ],
)
def test_a_short_sentence_is_about_what_its_paragraph_and_heading_are_about(
    question: str, right: str, wrong: str
) -> None:
    assert not found(question, right).denied
    assert found(question, right).evidence >= 0.5
    assert found(question, wrong).denied


def test_headings_speak_of_what_was_asked() -> None:
    below = found("What is the fee for sharpening knives?", "18 euros")
    without = found(
        "What is the fee for sharpening knives?", "18 euros", EVENTS.replace("## Sharpening knives", "## A")
    )
    assert below.evidence > 1.5 * without.evidence


@pytest.mark.parametrize(
    ("answer", "denied"),
    [
        ("Yes, dogs are allowed in the entrance hall on a lead, but not in the workshop.", True),
        ("Yes, but not in the workshop.", True),
        ("Yes, dogs are allowed in the workshop.", True),
        ("No, dogs are not allowed in the workshop.", False),
        ("Dogs are allowed in the entrance hall on a lead, but not in the workshop.", False),
    ],
)
def test_what_a_but_takes_away_is_not_so(answer: str, denied: bool) -> None:
    assert found("Can I bring dogs into the workshop?", answer, RULES).denied is denied


def test_an_answer_of_two_parts_may_rest_on_two_sentences() -> None:
    question = "Who gives the course in sharpening knives, and what is the fee?"
    right = found(question, "The course is given by Jonas Tellmann and the fee is 18 euros.")
    elsewhere = found(question, "The course is given by Rutger Aalbers and the fee is 18 euros.")
    assert right.evidence > 0.6
    assert right.evidence > 2 * elsewhere.evidence, "they stand below different headings"


@pytest.mark.parametrize(
    ("answer", "denied"),
    [
        ("Het dragen van een zwemvest is niet verplicht op de Meerkoet.", False),
        ("Nee.", False),
        ("Ja, het dragen van een zwemvest is verplicht op de Meerkoet.", True),
    ],
)
def test_the_clause_behind_a_but_says_what_the_first_one_does_not(answer: str, denied: bool) -> None:
    text = "Op de Meerkoet zijn zwemvesten voor alle passagiers, maar het dragen ervan is niet verplicht."
    question = "Is het dragen van een zwemvest verplicht op de Meerkoet?"
    assert Evidence(question, [text], "nl").of(answer).denied is denied


@pytest.mark.parametrize(
    ("question", "answer", "denied"),
    [
        ("How much does a trial lesson cost if I enrol within four weeks?", "18 euros", True),
        ("How much does a trial lesson cost if I enrol within four weeks?", "It is free.", False),
        ("How much does a trial lesson cost?", "18 euros", False),
        ("How much does a trial lesson cost if I am a student?", "18 euros", False),
    ],
)
def test_what_holds_under_a_condition_is_asked_of_the_sentence_that_has_it(
    question: str, answer: str, denied: bool
) -> None:
    text = (
        "A trial lesson costs 18 euros. It is free if the pupil enrols within four weeks. Students bring a certificate."
    )
    assert found(question, answer, text).denied is denied


@pytest.mark.parametrize(
    ("answer", "denied"),
    [
        ("The choir rehearses on Tuesdays from 15:30 in the Mill House.", True),
        ("Because the hall is taken.", False),
        ("The hall is taken on other days.", False),
    ],
)
def test_a_fact_is_no_reason(answer: str, denied: bool) -> None:
    text = "The choir rehearses on Tuesdays from 15:30 in the Mill House, since the hall is taken on other days."
    parted = text.replace(", since the", ". The reason: the")
    assert found("Why does the choir rehearse in the Mill House?", answer, parted).denied is denied
