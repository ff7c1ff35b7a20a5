"""Answers about something else than was asked: ages outside, a plain no elsewhere, no word of the question."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence

JOINING = "Anyone aged 16 or older may become a member. Members under 18 may speak but not vote."
BEITRITT = "Mitglied werden darf, wer mindestens 16 Jahre alt ist. Mitglieder unter 18 Jahren haben kein Stimmrecht."
CLIMBING = "Children under 14 may not climb alone. Children from 8 years may climb with an adult."
VOTES = "A member may be represented by another; nobody may carry more than two proxies. Members under 18 may speak."
SCHOOL = (
    "Lehrkräfte und Begleitpersonen haben freien Eintritt, höchstens eine je zehn Kinder.",
    "Die Säle öffnen 20 Minuten vor Beginn. Wer zu spät kommt, wird nicht mehr eingelassen, außer zwischen Kurzfilmen.",
)
DOG = "You can bring your dog. It must be kept on a leash."


@pytest.mark.parametrize(
    ("question", "answer", "passages", "language", "expected"),
    [
        ("May a 15 year old become a member?", "Yes, a 15-year-old may become a member.", [JOINING], "en", True),
        ("May a 17 year old become a member?", "Yes, a 17-year-old may become a member.", [JOINING], "en", False),
        ("Darf ein 15-Jähriger Mitglied werden?", "Ja, ein 15-Jähriger darf Mitglied werden.", [BEITRITT], "de", True),
        ("May a 15 year old climb alone?", "Yes, a 15-year-old may climb alone.", [CLIMBING], "en", False),
        ("May I carry three proxies at the assembly?", "Yes, members under 18 may speak.", [VOTES], "en", True),
        ("Can I bring my dog?", "Yes, it must be kept on a leash.", [DOG], "en", False),
        ("Wie viele Begleitpersonen haben freien Eintritt?", SCHOOL[1], [*SCHOOL], "de", True),
        ("Wann ist Einlass?", SCHOOL[1], [*SCHOOL], "de", False),
    ],
)  # fmt: skip
def test_an_answer_is_about_something_else(
    question: str, answer: str, passages: list[str], language: str, expected: bool
) -> None:
    parts = [f"{part}." for part in answer.removesuffix(".").split(". ")]
    found = Evidence(question, passages, language).of_answer(parts)
    assert any(one.denied for one in found) is expected


LEAVING = "The share of a member is paid back after the annual accounts are approved. Transfers cost a fee of 15 euros."
JOINING_FEE = "There is no annual fee."


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Does the annual membership cost a fee?", "Yes, the annual membership costs a fee.", True),
        ("Does the annual membership cost a fee?", "No, there is no annual fee.", False),
        ("Do transfers of a share cost a fee?", "Yes, transfers cost a fee of 15 euros.", False),
    ],
)
def test_a_plain_no_elsewhere_denies_a_yes(question: str, answer: str, expected: bool) -> None:
    titles = ["Membership rules", "Membership rules"]
    assert Evidence(question, [LEAVING, JOINING_FEE], "en", titles).of_answer([answer])[0].denied is expected
