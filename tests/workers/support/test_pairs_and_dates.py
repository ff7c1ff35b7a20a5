"""What is told of the first and of the second, dates that no passage has, and rows of something more special."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found

WEEKS = "# Ferienkurse\n\nJonas leitet die erste, Sanne die zweite Woche. Marie bestellt das Mittagessen."
KAMP = "# Kamp\n\nJonas Pohl leidt week 1 en Sanne de Vries week 2. Sanne spreekt Nederlands."
SHIFTS = "# Shifts\n\nThe first shift opens the barn, and the second shift feeds the horses."
TABLE = (
    "# Stundenplan\n\n| Tag | Uhrzeit | Stunde |\n| --- | --- | --- |\n| Donnerstag | 17:00-18:00 | Springen Jugend |\n"
    "| Freitag | 15:00-15:30 | Anfänger |\n\nDie Stallversammlung ist am 12. April."
)
DAYS = "# Courses in April\n\n| Day | Course |\n| --- | --- |\n| 17 | Jumping |\n| 24 | Vaulting |"
NUMBERS = "# Termine\n\nDie Prüfung ist am 17.04.2026. Das Fest dauert vom 13. bis 17. Juli."
PRICES = (
    "# Lessons\n\n| Lesson | Adults (EUR) | Children (EUR) |\n| --- | --- | --- |\n| Group lesson | 26 | 22 |\n"
    "| Private lesson | 48 | 44 |\n\n# Tickets\n\n| Item | Price (EUR) | Validity |\n| --- | --- | --- |\n"
    "| Ten-ticket group lessons children | 198 | 6 months |"
)
STAFF = (
    "# Stundenplan\n\n| Tag | Stunde | Reitlehrer | Ort |\n| --- | --- | --- | --- |\n"
    "| Mittwoch | Dressur Erwachsene | Sanne de Vries | große Halle |\n"
    "| Freitag | Anfänger | Jonas Pohl | kleine Halle |"
)
BUDGET = (
    "# Schulpferde\n\nSanne sieht sich am 21. März zwei Ponys an. Das Budget beträgt höchstens 6.500 Euro.\n\n"
    "# Fest\n\nGeplant sind Ponyreiten (3 Euro je Runde) und Kuchen."
)

WRONG = [
    ("Wer leitet die zweite Woche?", "Jonas leitet die zweite Woche.", WEEKS),
    ("Wie leidt week 2?", "Jonas Pohl leidt week 2.", KAMP),
    ("Wann ist Springen für Jugendliche?", "Springen für Jugendliche ist am 17. April.", TABLE),
    ("How much is a group lesson for a child?", "A group lesson for a child is 198 EUR.", PRICES),
    ("Wer unterrichtet Dressur Erwachsene am Mittwoch, und wo?",
     "Die Reitlehrkraft unterrichtet Dressur Erwachsene am Mittwoch in der große Halle.", STAFF),
]  # fmt: skip
RIGHT = [
    ("Wer leitet die zweite Woche?", "Sanne leitet die zweite Woche.", WEEKS),
    ("Wer leitet die erste Woche?", "Jonas leitet die erste Woche.", WEEKS),
    ("Leitet Jonas die erste Woche?", "Ja, Jonas leitet die erste Woche.", WEEKS),
    ("Wer leitet die zweite Woche?", "Jonas leitet die erste, Sanne die zweite Woche.", WEEKS),
    ("Wie leidt week 2?", "Sanne de Vries leidt week 2.", KAMP),
    ("What does the second shift do?", "The second shift feeds the horses.", SHIFTS),
    ("Wann ist die Stallversammlung?", "Die Stallversammlung ist am 12. April.", TABLE),
    ("When is jumping?", "Jumping is on 17 April.", DAYS),
    ("When is the deadline?", "The deadline is 17 April 2026.", "The deadline is 17 Apr 2026."),
    ("When is the concert in April?", "On 17 April.",
     "| Event | April | May |\n| --- | --- | --- |\n| Concert | 17 | 22 |\n| Reading | 3 | 8 |\n"),
    ("When is the concert?", "The concert is on 17 May.", "## May 2026\n\nThe concert is on Friday the 17th at 8.\n"),
    ("When does the exhibition open?", "The exhibition opens on 3 July.",
     "The exhibition runs in July. It opens on the 3rd at 10:00 and closes on the 27th."),
    ("When do the holidays begin?", "They begin on 12 October.", "Holidays: 12.-23.10."),
    ("Who may vote?", "All members over 18 may vote.", "Members above 18 can vote."),
    ("When does the first class have lunch?", "At noon.",
     "Children of the first and second class have lunch at noon."),
    ("Wer trainiert Gruppe 1?", "Frau Meier.", "Frau Meier trainiert Gruppe 1 und Gruppe 2 in der Halle."),
    ("Who teaches the second class?", "Anna",
     "Anna teaches the first class, and also the second class on Fridays, Ben the third."),
    ("Where is the first aid kit?", "In the kitchen on the second floor.",
     "The first aid kit is checked every month and hangs in the kitchen on the second floor."),
    ("How much is a single ticket on Saturday?", "7.50",
     "| Ticket | Price |\n|---|---|\n| Single ticket | 6.50 |\n| Single ticket, weekend | 7.50 |\n"),
    ("What is the cheapest day ticket?", "€9",
     "| Ticket | Price |\n|---|---|\n| Day ticket | €18 |\n| Day ticket (children) | €9 |\n| Week ticket | €60 |\n"),
    ("What is the second week " + "9" * 5000 + "?", "Sanne", KAMP),
    ("Wann ist die Prüfung?", "Die Prüfung ist am 17. April 2026.", NUMBERS),
    ("Wann endet das Fest?", "Das Fest endet am 17. Juli.", NUMBERS),
    ("How much is a group lesson for a child?", "A group lesson for a child is 22 EUR.", PRICES),
    ("Wer unterrichtet Dressur Erwachsene am Mittwoch?", "Reitlehrer ist Sanne de Vries.", STAFF),
    ("Wer unterrichtet Dressur Erwachsene am Mittwoch?", "Sanne de Vries unterrichtet in der große Halle.", STAFF),
    ("How much is a ten-ticket for group lessons for children?",
     "A ten-ticket for group lessons for children costs 198 EUR.", PRICES),
    ("Wie hoch ist das Budget für das neue Pony?",
     "Das Budget für das neue Pony beträgt höchstens 6.500 Euro.", BUDGET),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "passage"), WRONG)
def test_what_is_told_of_another_is_denied(question: str, answer: str, passage: str) -> None:
    assert found(question, answer, passage).denied


INVENTED = [
    ("How many rooms does the hotel have?", "It has 17 rooms.",
     "The hotel was opened on 17.04.1988. It has many rooms."),
    ("Which version was released in April?", "Version 17.", "Version 4.2.17 was released in April."),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "passage"), INVENTED)
def test_parts_of_a_date_are_no_other_numbers(question: str, answer: str, passage: str) -> None:
    assert found(question, answer, passage).denied


@pytest.mark.parametrize(("question", "answer", "passage"), RIGHT)
def test_what_is_told_of_it_is_not_denied(question: str, answer: str, passage: str) -> None:
    assert not found(question, answer, passage).denied
