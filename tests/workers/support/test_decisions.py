"""Motions and what became of them; reductions for those who were asked about."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence

MINUTES = """## Prices
Mr Hale moved to raise the evening price for adults to 10.50 euros
from January. The motion was rejected by two votes to three.

## Popcorn
Mrs Brandt moved to stop selling popcorn. The motion was
carried, four votes to none."""
PROTOKOLL = """## Preise
Herr Hale beantragte, den Abendpreis auf 10,50 Euro zu erhöhen. Der Antrag wurde mit zwei zu drei Stimmen abgelehnt.

## Popcorn
Frau Brandt schlug vor, kein Popcorn mehr zu verkaufen. Der Antrag wurde angenommen."""
NOTULEN = """## Prijzen
De heer Hale stelde voor de avondprijs tot 10,50 euro te verhogen. Het voorstel werd verworpen.

## Popcorn
Mevrouw Brandt stelde voor geen popcorn meer te verkopen. Het voorstel werd aangenomen."""
HALL = """| Room | Half day | Full day | Deposit |
| --- | --- | --- | --- |
| Large hall | 320 euros | 560 euros | 300 euros |
| Studio | 140 euros | 250 euros | 150 euros |

Members pay 15 percent less, but the deposit stays the same."""
PRICE = "Was the motion to raise the evening price to 10.50 euros carried?"
POPCORN = "Was the motion to stop selling popcorn carried?"
VERHOGEN = "Is het voorstel om de avondprijs tot 10,50 euro te verhogen aangenomen?"


def denied(question: str, answer: str, passage: str, language: str) -> bool:
    return Evidence(question, [passage], language).of_answer([answer])[0].denied


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        (PRICE, "Yes, it was carried.", MINUTES, "en", True),
        (PRICE, "The motion to raise the evening price was carried, four votes to none.", MINUTES, "en", True),
        (PRICE, "The motion was rejected by two votes to three.", MINUTES, "en", False),
        (PRICE, "No, it was rejected.", MINUTES, "en", False),
        (POPCORN, "Yes, it was carried.", MINUTES, "en", False),
        (POPCORN, "The motion was carried, four votes to none.", MINUTES, "en", False),
        (POPCORN, "No, it was rejected.", MINUTES, "en", True),
        ("Wurde der Antrag angenommen, den Abendpreis auf 10,50 Euro zu erhöhen?", "Ja, der Antrag wurde angenommen.",
         PROTOKOLL, "de", True),
        ("Wurde der Antrag abgelehnt, den Abendpreis auf 10,50 Euro zu erhöhen?", "Ja, er wurde abgelehnt.",
         PROTOKOLL, "de", False),
        (VERHOGEN, "Ja, het voorstel is aangenomen.", NOTULEN, "nl", True),
        (VERHOGEN, "Nee, het voorstel is verworpen.", NOTULEN, "nl", False),
        ("What was decided about popcorn?", "It was carried to stop selling popcorn.", MINUTES, "en", False),
    ],
)  # fmt: skip
def test_a_motion_had_another_outcome(question: str, answer: str, passage: str, language: str, expected: bool) -> None:
    assert denied(question, answer, passage, language) is expected


TOUR, FUEHRUNG, LEDEN = (
    "A guided tour costs 12 euros.",
    "Eine Führung kostet 12 Euro.",
    "Een rondleiding kost 12 euro.",
)


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        ("I am a member and hire the large hall for a half day. How much is the rent?",
         "The rent for a half day at the large hall is 320 euros.", HALL, "en", True),
        ("How much is the large hall for a half day?", "The large hall costs 320 euros for a half day.",
         HALL, "en", False),
        ("What deposit does a member pay for the large hall?", "The deposit for the large hall is 300 euros.",
         HALL, "en", False),
        ("How much is a guided tour for members?", TOUR, f"{TOUR} Members get 10 percent off at the bar.", "en", False),
        ("How much is a guided tour for a student?", TOUR, f"{TOUR} Students pay half.", "en", True),
        ("How much is a guided tour for a student?", "A guided tour costs 12 euros, students pay half.",
         f"{TOUR} Students pay half.", "en", False),
        ("How much is a guided tour?", TOUR, f"{TOUR} Students pay half.", "en", False),
        ("Was kostet eine Führung für Mitglieder?", FUEHRUNG, f"{FUEHRUNG} Mitglieder zahlen 10 Prozent weniger.",
         "de", True),
        ("Was kostet eine Führung?", FUEHRUNG, f"{FUEHRUNG} Mitglieder zahlen 10 Prozent weniger.", "de", False),
        ("Wat kost een rondleiding voor leden?", LEDEN, f"{LEDEN} Leden betalen de helft.", "nl", True),
        ("Wat kost een rondleiding?", LEDEN, f"{LEDEN} Leden betalen de helft.", "nl", False),
    ],
)  # fmt: skip
def test_those_who_were_asked_about_pay_less(
    question: str, answer: str, passage: str, language: str, expected: bool
) -> None:
    assert denied(question, answer, passage, language) is expected
