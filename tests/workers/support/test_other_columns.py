"""Days in any cell of a row, numbers that count nothing, columns and rows of something else, shares, and meanwhile."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found

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

HALL = "| Entry | Hall and lanes | Lanes only |\n|---|---|---|\n| Students | 14.00 € | 8.50 € |\n| All | 19 € | 11 € |"
COURSES = "| course | trainer | price_eur | member_price_eur |\n|---|---|---|---|\n| Archery | Ada Holm | 149 | 125 |"
EARLY = "Members may swim from 7:00 on Fridays, with the desk unstaffed. Guests may not come along."
HIRE = "# Boats and hire\n\nMembers pay 2 euros less for the sauna. There is no discount on hire boats."
CASH = "We take cash and cards at the desk; the shop takes cards only."
ROPES = "Ropes are not lent outdoors; in the hall a long rope costs 6.00 € with a deposit of 130 €."


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
        ("How much is the entry for students for lanes only?", "14.00 €", HALL),
        ("How much does the archery course cost for members?", "The archery course costs 149 € for members.", COURSES),
        ("May members bring a guest on Fridays?",
         "Yes, members may swim from 7:00 on Fridays, with the desk unstaffed. Guests may not come along.", EARLY),
        ("Is there a discount on hire boats for members?", "Members pay 2 euros less for the sauna.", HIRE),
        ("Can I pay cash in the shop?", "Yes, you can pay cash in the shop.", CASH),
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
        ("How much is the entry for students for lanes only?", "8.50 €", HALL),
        ("How much is the entry for students for hall and lanes?", "14.00 €", HALL),
        ("How much does the archery course cost for members?", "The archery course costs 125 € for members.", COURSES),
        ("May members swim on Fridays?", "Yes, members may swim from 7:00 on Fridays.", EARLY),
        ("Is there a discount on the sauna for members?", "Members pay 2 euros less for the sauna.", HIRE),
        ("Can I pay cash at the desk?", "Yes, you can pay cash at the desk.", CASH),
        ("What is the deposit for a long rope?", "The deposit for a long rope is 130 €.", ROPES),
    ],
)  # fmt: skip
def test_what_the_passages_say_is_not_denied(question: str, answer: str, passage: str) -> None:
    assert not found(question, answer, passage).denied
