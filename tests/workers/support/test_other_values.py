"""What a sentence, or another one, says of what was asked beside the value of a claim."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence

LATE = "# Boats\n\nLate returns cost 3 pounds per hour, for the motor boat 9 pounds per hour."
CAMP = "# Camp\n\nThe lower meadow has 40 pitches and costs 7 euros per night; it is free for volunteers."
TAPS = "# Taps\n\nThere are six taps: three behind the barn, two in the orchard and one in the yard."
SAUNA = "# Visits\n\nA visit can be moved once to another day, unless it is full. The steam bath cannot be moved."
LAMPS = "# Minutes\n\nThe lamps on the pier were rejected by the council. The square gets lamps in June."
TOURS = "# Tours\n\n**What does it cost?** 4.50 euros per child.\n\nNight tours cost 8 euros per child."
PRICES = "| Ticket | Price in euros | Friends |\n| --- | --- | --- |\n| Lantern walk | 6 | 2 |\n| Boat trip | 12 | 9 |"
GERMAN = "# Halle\n\nDie Miete beträgt 30 Euro pro Abend, für Vereine aus dem Ort 12 Euro. Stühle kosten nichts."
DUTCH = (
    "# Fietsen\n\nEen fiets huren kost 10 euro per dag; voor bewoners is het gratis. Een bakfiets kost 25 euro per dag."
)

WRONG = [
    ("How much is a late return of the motor boat?",
     "A late return of the motor boat costs 3 pounds per hour.", LATE, "en"),
    ("What does a night cost for volunteers?", "A night costs 7 euros for volunteers.", CAMP, "en"),
    ("Do volunteers pay for the lower meadow?", "Yes, volunteers pay for the lower meadow.", CAMP, "en"),
    ("Does the meadow cost volunteers anything?", "The meadow costs volunteers anything.", CAMP, "en"),
    ("How many taps are in the orchard?", "There are six taps in the orchard.", TAPS, "en"),
    ("How many taps are in the yard?", "Three taps are in the yard.", TAPS, "en"),
    ("Can a visit to the steam bath be moved?",
     "Yes, a visit to the steam bath can be moved once to another day.", SAUNA, "en"),
    ("Are there lamps on the pier?", "Yes, lamps on the pier come in June.", LAMPS, "en"),
    ("What does a night tour cost per child?", "4.50 euros per child.", TOURS, "en"),
    ("What does the lantern walk cost for friends?", "The lantern walk costs 6 euros for friends.", PRICES, "en"),
    ("Was kostet die Halle für Vereine aus dem Ort?", "Die Halle kostet 30 Euro pro Abend für Vereine.", GERMAN, "de"),
    ("Betalen bewoners voor een fiets?", "Ja, bewoners betalen voor een fiets.", DUTCH, "nl"),
    ("Wat kost een fiets voor bewoners?", "Een fiets kost 10 euro per dag voor bewoners.", DUTCH, "nl"),
]  # fmt: skip
RIGHT = [
    ("How much is a late return?", "A late return costs 3 pounds per hour.", LATE, "en"),
    ("How much is a late return of the motor boat?",
     "A late return of the motor boat costs 9 pounds per hour.", LATE, "en"),
    ("How many pitches does the lower meadow have?", "The lower meadow has 40 pitches.", CAMP, "en"),
    ("What does the lower meadow cost per night?", "The lower meadow costs 7 euros per night.", CAMP, "en"),
    ("Do volunteers pay for the lower meadow?", "No, it is free for volunteers.", CAMP, "en"),
    ("Does the meadow cost anything?", "Yes, the meadow costs 7 euros per night.", CAMP, "en"),
    ("How many taps are there?", "There are six taps.", TAPS, "en"),
    ("How many taps are behind the barn?", "There are three taps behind the barn.", TAPS, "en"),
    ("How many taps are in the orchard?", "Two taps are in the orchard.", TAPS, "en"),
    ("Can a visit be moved?", "Yes, a visit can be moved once to another day.", SAUNA, "en"),
    ("Are there lamps on the square?", "Yes, the square gets lamps in June.", LAMPS, "en"),
    ("What does a tour cost per child?", "4.50 euros per child.", TOURS, "en"),
    ("What does a night tour cost per child?", "8 euros per child.", TOURS, "en"),
    ("What does the lantern walk cost for friends?", "The lantern walk costs 2 euros for friends.", PRICES, "en"),
    ("What does the lantern walk cost?", "The lantern walk costs 6 euros.", PRICES, "en"),
    ("Was kostet die Halle pro Abend?", "Die Miete beträgt 30 Euro pro Abend.", GERMAN, "de"),
    ("Was kostet die Halle für Vereine aus dem Ort?",
     "Für Vereine aus dem Ort beträgt die Miete 12 Euro.", GERMAN, "de"),
    ("Wat kost een fiets per dag?", "Een fiets huren kost 10 euro per dag.", DUTCH, "nl"),
    ("Is een fiets gratis voor bewoners?", "Ja, voor bewoners is het gratis.", DUTCH, "nl"),
    ("What does the pond hold?",
     "It holds 900 litres, the small one 200 litres.", "The pond holds 900 litres, the small one 200 litres.", "en"),
    ("What does a guest pay?", "A guest pays €4.", "Members pay €2, a guest €4, and children nothing.", "en"),
    ("Is parking free for guests?",
     "Yes, parking is free for guests.", "Parking is free for guests; others pay €3.", "en"),
    ("Are dogs allowed in the holiday homes?", "Yes, dogs are allowed.",
     "Dogs are allowed. Smoking is not allowed in the holiday homes.", "en"),
    ("Can bookings be changed?", "Yes, bookings can be changed up to 24 hours before the tour.",
     "Bookings can be changed or cancelled free of charge up to 24 hours before the tour.", "en"),
    ("Are premiums returned?", "Yes, premiums are returned for cancelled contracts.",
     "Premiums paid are returned for cancelled contracts.", "en"),
    ("Wird die Kursgebühr erstattet?", "Ja, die Kursgebühr wird erstattet.",
     "Die Kursgebühr wird erstattet, wenn der Kurs abgesagt wird.", "de"),
    ("How much do adults and children pay?", "Adults pay 8 euros.", "Adults pay 8 euros, children 4 euros.", "en"),
    ("What is the deposit for the hall?", "The deposit is 50 euros.",
     "The deposit is 50 euros, and the fee for the hall is 200 euros per day.", "en"),
    ("What does a 120-litre bin for residual waste cost?", "A 120-litre bin costs 90 euros a year.",
     "A 120-litre bin costs 90 euros a year, and a 240-litre bin for residual waste costs 160 euros a year.", "en"),
    ("Wat kost de toegang tot het museum?", "Toegang kost 12 euro.",
     "Toegang kost 12 euro, met een museumkaart is het museum gratis.", "nl"),
    ("Do visitors pay for the audio guide?", "Yes, the audio guide costs 5 euros.",
     "The audio guide costs 5 euros and is free for visitors with a museum pass.", "en"),
    ("How much does it cost to rent a bike per day?", "It costs 10 euros per day.",
     "It costs 10 euros per day and 50 euros per week to rent a bike.", "en"),
    ("How much is a car park ticket per further hour?", "1 euro for every further hour.",
     "A ticket for the car park costs 2 euros for the first hour and 1 euro for every further hour.", "en"),
    ("How many members does the club have?", "The club has 120 members.",
     "It has 120 members and is one of the largest clubs in the region.", "en"),
    ("How many books can I borrow with a library card?", "You can borrow 10 books.",
     "You can borrow 10 books and 5 DVDs per library card.", "en"),
    ("What is the annual fee for members of the chess club?", "The annual fee is 30 euros.",
     "| Club | Members | Annual fee |\n| --- | --- | --- |\n| Chess club | 45 | 30 |", "en"),
    ("What is the fee for members of the chess club?", "The fee is 30 euros.",
     "| Club | Members | Fee |\n| --- | --- | --- |\n| Chess club | 45 | 30 |", "en"),
    ("What is the price for adults?", "20 euros.",
     "| Trip | Price | Adults |\n| --- | --- | --- |\n| Boat trip | 20 | max. 8 |", "en"),
    ("What does the guided tour cost?", "The tour costs 10 euros.",
     "The tour costs 10 euros. A headset for the guided tour costs 2 euros.", "en"),
    ("Is the festival taking place on Sunday?", "Yes, it takes place on Sunday.",
     "The festival takes place on Sunday. The parade of the festival on Sunday was cancelled.", "en"),
    ("What is the annual membership fee for students?", "Students pay 20 euros.",
     "The annual membership fee is 40 euros, with a reduced rate for students.\n\nStudents pay 20 euros.", "en"),
]  # fmt: skip
"""The last ones are those that a first form of the rules denied."""


def denied(question: str, claim: str, text: str, language: str) -> bool:
    return Evidence(question, [text], language).of(claim).denied


@pytest.mark.parametrize(("question", "claim", "text", "language"), WRONG)
def test_a_value_of_something_else_is_denied(question: str, claim: str, text: str, language: str) -> None:
    assert denied(question, claim, text, language)


@pytest.mark.parametrize(("question", "claim", "text", "language"), RIGHT)
def test_its_own_value_is_not(question: str, claim: str, text: str, language: str) -> None:
    assert not denied(question, claim, text, language)


SEATS = "Room B has 40 seats, room A has 12 seats."
TENTS = "The small tent costs 20 euros and the big tent 35 euros. On Sundays it is 5 euros more."
LOAVES = "The oven costs 40 euros, on Sundays 45 euros."


@pytest.mark.parametrize(
    ("question", "right", "wrong", "passage"),
    [
        ("How many seats has room B?", "Room B has 40 seats.", "Room B has 12 seats.", SEATS),
        ("How many seats has room B?", "40", "12", SEATS),
        ("How many seats has room A?", "Room A has 12 seats.", "Room A has 40 seats.", SEATS),
        ("What does the big tent cost?", "The big tent costs 35 euros.", "The big tent costs 20 euros.", TENTS),
        ("What does the small tent cost?", "The small tent costs 20 euros.", "The small tent costs 35 euros.", TENTS),
    ],
)
def test_parts_of_a_sentence_about_two_things_keep_their_numbers(
    question: str, right: str, wrong: str, passage: str
) -> None:
    assert not denied(question, right, passage, "en")
    assert denied(question, wrong, passage, "en")


@pytest.mark.parametrize("question", ["What does the oven cost on Sundays?", "What does the oven cost on a holiday?"])
def test_a_later_part_about_what_was_asked_is_not_denied_by_the_first(question: str) -> None:
    assert not denied(question, "It costs 45 euros.", LOAVES, "en")


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language"),
    [
        (
            "Was kostet der Kurs?",
            "Mitglieder zahlen 60 Euro.",
            "Der Kurs kostet 80 Euro, Mitglieder zahlen 60 Euro.",
            "de",
        ),
        ("What does the sauna cost?", "A towel costs 3 euros.", "The sauna costs 12 euros, a towel 3 euros.", "en"),
        ("Does a day cost 45?", "Yes, a day costs 45 euros.", "A day costs €45 and half a day costs 27 euros.", "en"),
        ("How deep is the pool?", "2 metres", "The pool is 25 metres long and 2 metres deep.", "en"),
        ("May groups use hall B?", "Yes, groups may use hall B.", "Groups may use halls A to D.", "en"),
    ],
)
def test_what_names_the_other_thing_itself_is_not_denied(
    question: str, answer: str, passage: str, language: str
) -> None:
    assert not denied(question, answer, passage, language)


@pytest.mark.parametrize("answer", ["25 metres", "25"])
def test_a_length_is_no_depth(answer: str) -> None:
    assert denied("How deep is the pool?", answer, "The pool is 25 metres long and 2 metres deep.", "en")
