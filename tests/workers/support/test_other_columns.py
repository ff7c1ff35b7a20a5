"""Days in any cell of a row, numbers that count nothing, columns and rows of something else, shares, and meanwhile."""

from __future__ import annotations

import pytest

from retriever.languages import language_of
from workers.support.evidence import Evidence, Found
from workers.support.passages.sentences import sentences

CREW = (
    "| Name | Role | Days | Extension |\n|---|---|---|---|\n| Rosa Lindt | Skipper | Monday, Thursday | 44 |\n"
    "| Milo Brandt | Engineer | Wednesday to Saturday | 17 |"
)
CLOSURE = "From 2 to 19 May the library is closed for repairs. The office stays open in that time."
PAUSE = "Vom 2. bis 19. Mai ist die Werkstatt geschlossen. Das Lager bleibt in dieser Zeit geöffnet."
DISCOUNT = "Friends get 15 percent off all books. The discount does not apply to postcards."
SURCHARGE = "The night surcharge is 40 euros. It is 70 euros on Sundays. Friends of the Harbour pay half the surcharge."
REPAIRS = (
    "## Sails\n\n| Boat | Small | Large |\n|---|---|---|\n| Dinghy | 65 | 95 |\n| Yawl | 120 | 210 |\n\n"
    "## Engines\n\n| Service | Dinghy | Ketch |\n|---|---|---|\n| Oil change | 35 | 55 |\n| New propeller | 140 | 230 |"
)


def found(question: str, answer: str, passage: str) -> Found:
    claims = [answer[start:end] for start, end in sentences(answer)]
    return min(
        Evidence(question, [passage], language_of(question)).of_answer(claims),
        key=lambda one: (not one.denied, one.evidence),
    )


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("Does Milo Brandt work on Mondays?", "Yes, Milo Brandt works on Mondays.", CREW),
        ("How many years has Milo Brandt been here?", "Milo Brandt has been here for 17 years.", CREW),
        ("Is the office closed in May?", "The office is closed in May.", CLOSURE),
        ("Is the office closed in May?", "Yes, the office is closed in May.", CLOSURE),
        ("Ist das Lager im Mai geschlossen?", "Ja, das Lager ist im Mai geschlossen.", PAUSE),
        ("Do friends get a discount on postcards?", "Yes, friends get 15 percent off all books.", DISCOUNT),
        ("How much is the surcharge on Sundays for Friends of the Harbour?",
         "The surcharge on Sundays for Friends of the Harbour is 70 euros.", SURCHARGE),
        ("What does an oil change cost for a yawl?", "An oil change costs 210 euros for a yawl.", REPAIRS),
        ("What does an oil change cost for a yawl?", "An oil change costs 55 euros for a yawl.",
         REPAIRS.replace("| Yawl |", "| Ketch | 99 | 130 |\n| Yawl |")),
    ],
)  # fmt: skip
def test_it_is_denied(question: str, answer: str, passage: str) -> None:
    assert found(question, answer, passage).denied


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("Does Milo Brandt work on Fridays?", "Yes, Milo Brandt works on Fridays.", CREW),
        ("Does Rosa Lindt work on Mondays?", "Yes, Rosa Lindt works on Mondays.", CREW),
        ("What is the extension of Milo Brandt?", "The extension of Milo Brandt is 17.", CREW),
        ("Is the library closed in May?", "Yes, the library is closed in May.", CLOSURE),
        ("Is the office open in May?", "The office stays open in May.", CLOSURE),
        ("Ist die Werkstatt im Mai geschlossen?", "Ja, die Werkstatt ist im Mai geschlossen.", PAUSE),
        ("Do friends get a discount on books?", "Yes, friends get 15 percent off all books.", DISCOUNT),
        ("How much is the surcharge on Sundays?", "The surcharge on Sundays is 70 euros.", SURCHARGE),
        ("How much of the surcharge do Friends of the Harbour pay?",
         "Friends of the Harbour pay half the surcharge.", SURCHARGE),
        ("What does an oil change cost for a ketch?", "An oil change costs 55 euros for a ketch.", REPAIRS),
        ("What does a large sail cost for a yawl?", "A large sail costs 210 euros for a yawl.", REPAIRS),
    ],
)  # fmt: skip
def test_what_the_passages_say_is_not_denied(question: str, answer: str, passage: str) -> None:
    assert not found(question, answer, passage).denied
