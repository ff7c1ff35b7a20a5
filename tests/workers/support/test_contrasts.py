"""What a sentence says not to be so, beside what it says; a thing and a kind of it; a number that is no price."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found
from workers.support.evidence import Evidence

RYE = "Mr Reed gets two bags of rye flour and not wheat flour."
ROGGEN = "Herr Reinders bekommt zwei Säcke Roggenmehl 1150\nund NICHT 997, das war ein Fehler von mir."
NUTS = "Peanuts may not be brought into the building. Other nuts may be used at table 4 only."
FLOURS = "| 202 | Roggenmehl | 1150 | 2,05 | 9,30 | 41,00 |\n| 203 | Roggenmehl | 997 | 2,10 | 9,60 | 42,00 |"
HEAD = "Preisliste Mehl 2026\nMehle\nNr. | Sorte | Type | 1 kg | 5 kg | 25 kg"


@pytest.mark.parametrize(
    ("question", "right", "wrong", "passage"),
    [
        ("What does Mr Reed get?", "Mr Reed gets two bags of rye flour.", "Mr Reed gets wheat flour.", RYE),
        (
            "Welches Mehl bekommt Herr Reinders?",
            "Herr Reinders bekommt zwei Säcke Roggenmehl 1150.",
            "Herr Reinders bekommt Roggenmehl 997.",
            ROGGEN,
        ),
        (
            "What may not be brought or baked?",
            "Peanuts may not be brought into the building.",
            "Nuts may not be brought into the building.",
            NUTS,
        ),
    ],
)
def test_what_is_said_not_to_be_so_denies_itself_alone(question: str, right: str, wrong: str, passage: str) -> None:
    assert not found(question, right, passage).denied
    assert found(question, wrong, passage).denied


@pytest.mark.parametrize(
    ("answer", "denied"),
    [
        ("Die Preisliste zeigt, dass 5 kg Roggenmehl 1150 Euro kostet.", True),
        ("5 kg Roggenmehl 1150 kosten 9,30 Euro.", False),
        ("9,30 Euro", False),
    ],
)
def test_a_number_of_the_question_is_no_price_by_a_currency_behind_it(answer: str, denied: bool) -> None:
    (one,) = Evidence("Was kosten 5 kg Roggenmehl 1150?", [FLOURS], "de", [HEAD]).of_answer([answer])
    assert one.denied is denied
