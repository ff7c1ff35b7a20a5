"""Names in the place of "the first one" and the like."""

from __future__ import annotations

import pytest

from rag_service.prompting.rewriting.ordinals import resolved

ROOMS = ("How many fit in the Basalt training room?", "How many fit in the Quartz training room?")


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Does the first one have a projector?", "Does Basalt have a projector?"),
        ("And does the second room have one?", "And does the Quartz room have one?"),
        ("What does the former cost?", "What does Basalt cost?"),
        ("Where is the latter?", "Where is Quartz?"),
        ("Is the first one larger than the second?", "Is Basalt larger than Quartz?"),
        ("Does the first have a projector?", "Does Basalt have a projector?"),
        ("And how many fit in the other one?", "And how many fit in Basalt?"),
        ("Is the other room free?", "Is the Basalt room free?"),
        ("On the other hand, is it free?", None),
        ("Who opens it on the first day of a month?", None),
        ("Where is first aid?", None),
        ("Where is it?", None),
    ],
)
def test_ordinals_after_two_names_mean_one_of_them(question: str, meant: str | None) -> None:
    assert resolved(question, ROOMS, "en") == meant


def test_in_german_and_dutch() -> None:
    german = ("Was kostet der Raum Basalt?", "Was kostet der Raum Quarz?")
    assert resolved("Hat der erste einen Beamer?", german, "de") == "Hat Raum Basalt einen Beamer?"
    assert resolved("Wie viele passen in den zweiten Raum?", german, "de") == "Wie viele passen in Raum Quarz?"
    assert resolved("Wie teuer ist es im anderen?", german, "de") == "Wie teuer ist es in Raum Basalt?"
    assert resolved("Was steht im ersten?", german, "de") == "Was steht in Raum Basalt?"
    dutch = ("Wat is het budget van project Waterlelie?", "Wat is het budget van project Kiezelpad?")
    assert resolved("En wie leidt het eerste project?", dutch, "nl") == "En wie leidt project Waterlelie?"
    assert resolved("En het andere project?", dutch, "nl") == "En project Waterlelie?"
    assert resolved("En het tweede?", dutch, "nl") == "En Kiezelpad?"


def test_the_other_one_is_not_clear_if_the_last_question_names_neither_or_both() -> None:
    for last in ("How long is it?", "Is Basalt larger than Quartz?"):
        assert resolved("Is the other one free?", (*ROOMS, last), "en") is None


@pytest.mark.parametrize(
    "past",
    [
        (),
        ROOMS[:1],
        (*ROOMS, "How many fit in the Granite training room?"),
        ("How many fit in the training room?", "And the office?"),
    ],
)
def test_without_two_names_it_is_not_clear_what_they_mean(past: tuple[str, ...]) -> None:
    assert resolved("Does the first one have a projector?", past, "en") is None
    assert resolved("Does the first one have a projector?", ROOMS, "fr") is None
