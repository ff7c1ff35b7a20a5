"""What a sentence of an answer states, with the yes or no before it."""

from __future__ import annotations

import pytest

from retriever.words import split
from workers.support.claim import Claim


@pytest.mark.parametrize(
    ("sentence", "verdict", "said"),
    [
        ("Yes, dogs are allowed.", "yes", "dogs are allowed"),
        ("Ja – Hunde sind erlaubt.", "yes", "hunde sind erlaubt"),
        ("Nee, dat mag niet.", "no", "dat mag niet"),
        ("No smoking is allowed.", "", "no smoking is allowed"),
        ("Nobody may smoke.", "", "nobody may smoke"),
        ("是，可以。", "yes", "可以"),
        ("Yes.", "yes", "are dogs allowed"),
        ("Nein", "no", "are dogs allowed"),
    ],
)
def test_a_yes_or_no_is_taken_off(sentence: str, verdict: str, said: str) -> None:
    claim = Claim.read(sentence, "Are dogs allowed?")
    assert (claim.verdict, claim.said) == (verdict, split(said))


def test_a_bare_no_says_no_to_the_question() -> None:
    assert Claim.read("No.", "Are dogs allowed?").negations == 1
    assert Claim.read("Yes.", "Are dogs allowed?").negations == 0
    assert Claim.read("No, dogs are not allowed.", "Are dogs allowed?").negations == 1


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is the limit 25 km/h?", "Yes, the limit is 35 km/h."),
        ("Muss ich vier Wochen vorher fragen?", "Ja, spätestens zwei Wochen vorher."),
        ("Is the pool open on Mondays?", "Yes, it is closed on Mondays."),
        ("Hat die Halle an Feiertagen geöffnet?", "Ja, die Halle ist an Feiertagen geschlossen."),
    ],
)
def test_some_answers_say_yes_and_then_something_else(question: str, answer: str) -> None:
    assert Claim.read(answer, question).is_at_odds_with(split(question))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is the limit 25 km/h?", "Yes, the limit is 25 km/h."),
        ("Is the limit 25 km/h?", "No, the limit is 35 km/h."),
        ("Is the limit 25 km/h?", "The limit is 35 km/h."),
        ("Is it open after 8 o'clock?", "Yes, it is open until 10 o'clock."),
        ("Gilt das für mehr als 10 Personen?", "Ja, es gilt für 12 Personen."),
        ("Is the pool open on Mondays?", "Yes, it is open from 10 to 8."),
        ("Is the pool closed on Mondays?", "Yes, it is not open on Mondays."),
    ],
)
def test_others_do_not(question: str, answer: str) -> None:
    assert not Claim.read(answer, question).is_at_odds_with(split(question))
