"""What a sentence says of a time, where the next one says what comes behind it."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found

TRIAL = (
    "## § 8 Laufzeit\n\nDie ersten drei Monate gelten als Probezeit mit einer Kündigungsfrist von 14 Tagen. Danach "
    "kann der Vertrag von beiden Seiten mit einer Frist von zwei Monaten zum Monatsende gekündigt werden."
)
STAFF = (
    "# Notice\n\nDuring the probation period the notice is two weeks. Afterwards it is three months. "
    "Keys are returned within 5 days."
)
DUTCH = "# Opzeggen\n\nIn de proefmaand is de opzegtermijn 7 dagen. Daarna is de opzegtermijn 2 maanden."
MEAL = "# Camp\n\nAfter the lunch break the children ride for 2 hours. Then they groom the ponies for 1 hour."

WRONG = [
    ("Wie lange ist die Kündigungsfrist nach der Probezeit?",
     "Die Kündigungsfrist nach der Probezeit beträgt 14 Tage.", TRIAL),
    ("How long is the notice after the probation period?", "The notice is two weeks.", STAFF),
    ("How long is the notice after probation?", "The notice after probation is 2 weeks.", STAFF),
    ("Wat is de opzegtermijn na de proefmaand?", "De opzegtermijn na de proefmaand is 7 dagen.", DUTCH),
]  # fmt: skip
RIGHT = [
    ("Wie lange ist die Kündigungsfrist nach der Probezeit?",
     "Die Kündigungsfrist nach der Probezeit beträgt zwei Monate zum Monatsende.", TRIAL),
    ("Wie lange ist die Kündigungsfrist in der Probezeit?",
     "Die Kündigungsfrist in der Probezeit beträgt 14 Tage.", TRIAL),
    ("How long is the notice after the probation period?", "Afterwards it is three months.", STAFF),
    ("How long is the notice during the probation period?", "The notice is two weeks.", STAFF),
    ("Wat is de opzegtermijn na de proefmaand?", "Daarna is de opzegtermijn 2 maanden.", DUTCH),
    ("Wann fährt der Bus nach Köln?", "Um 8:15 Uhr.",
     "Der Bus Richtung Köln fährt um 8:15 Uhr ab. Danach hält er um 9:30 Uhr in Bonn."),
    ("How long after delivery can I return goods?", "14 days",
     "From delivery, you have 14 days to return goods. Afterwards, exchanges only are possible for 30 days."),
    ("When is the talk after the break?", "The talk is at 11:30.",
     "The break is at 11:00 and the talk at 11:30. Then there is lunch at 13:00."),
    ("How long do the children ride after the lunch break?", "They ride for 2 hours.", MEAL),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "passage"), WRONG)
def test_what_holds_before_is_denied_for_afterwards(question: str, answer: str, passage: str) -> None:
    assert found(question, answer, passage).denied


@pytest.mark.parametrize(("question", "answer", "passage"), RIGHT)
def test_what_holds_at_the_time_that_was_asked_for_is_not_denied(question: str, answer: str, passage: str) -> None:
    assert not found(question, answer, passage).denied
