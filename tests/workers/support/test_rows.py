"""Evidence in tables: a value counts for what stands above its column and at the head of its row."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence, Found

PRICES = """# Prices 2026

All prices are in euros.

| Ticket | Adults | Children |
|---|---|---|
| Day ticket | 7.50 | 4 |
| Month pass | 42 | 21 |
| Guided tour of Mr. Olde (Sat.) | 11 | 6 |
"""
PREISE = """# Preise

| Karte | Erwachsene | Kinder |
|---|---|---|
| Tageskarte | 7,50 € | 4,00 € |
| Jahreskarte | 80 € | 40 € |
"""
LATER_PART = "| Day ticket | 7.50 | 4 |\n| Month pass | 42 | 21 |\n"
SERVICES = """| Service | Unit | Member price (GBP) | Non-member price (GBP) |
| --- | --- | --- | --- |
| Alder Room | hour | 18.00 | 32.00 |
| Birch Room | hour | 7.50 | 14.00 |
| Laminating A4 | sheet | 1.20 | 1.80 |
"""
WITHOUT_RULE = "Name | Room | Phone\nAnna Dirksen | 12 | 4410\nPiet Vos | 14 | 4471\n"


def found(question: str, claim: str, text: str = PRICES, language: str = "en", title: str = "Prices") -> Found:
    return Evidence(question, [text], language, [title]).of(claim)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How much is a day ticket for adults?", "A day ticket for adults costs 7.50 euros.", "It costs 4 euros."),
        ("How much is a day ticket for adults?", "7.50", "42"),
        ("What does a month pass cost for children?", "A month pass costs 21 for children.", "It costs 42."),
        ("What does a month pass cost for children?", "21", "4"),
        ("What do children pay for the guided tour?", "Children pay 6 euros for the guided tour.", "They pay 11."),
    ],
)
def test_a_value_of_another_row_or_column_is_denied(question: str, right: str, wrong: str) -> None:
    assert found(question, right).evidence >= 0.8
    assert not found(question, right).denied
    assert found(question, wrong).denied
    assert found(question, wrong).evidence <= 0.2


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("What does an hour in the Alder Room cost a non-member?", "A non-member pays 32.00 GBP.", "It costs 18.00."),
        ("What is the price of an hour in the Alder Room for a member?", "18.00", "32.00"),
        ("How much does laminating an A4 sheet cost a member?", "1.20 pounds", "1.80 pounds"),
        ("What does a non-member pay for the Birch Room?", "14.00", "32.00"),
    ],
)
def test_a_member_is_no_non_member(question: str, right: str, wrong: str) -> None:
    assert found(question, right, SERVICES).evidence >= 0.8
    assert not found(question, right, SERVICES).denied
    assert found(question, wrong, SERVICES).denied


def test_numbers_are_found_in_another_form() -> None:
    asked = "Wie viel kostet die Tageskarte für Kinder?"
    assert found(asked, "Die Tageskarte kostet für Kinder 4 Euro.", PREISE, "de").evidence >= 0.8
    assert found(asked, "Die Tageskarte kostet für Kinder 7,50 Euro.", PREISE, "de").denied


def test_a_table_that_begins_in_an_earlier_passage_has_its_first_row_above() -> None:
    asked, title = "How much is a day ticket for adults?", "Prices\nTicket | Adults | Children"
    assert found(asked, "7.50", LATER_PART, title=title).evidence >= 0.8
    assert found(asked, "4", LATER_PART, title=title).denied
    assert found("What does a month pass cost for adults?", "7.50", LATER_PART, title=title).denied


def test_a_later_table_has_its_own_first_row() -> None:
    text, title = f"{LATER_PART}\nPhones:\n\n{WITHOUT_RULE}", "Prices\nTicket | Adults | Children"
    assert found("Which phone number does Anna Dirksen have?", "4410", text, title=title).evidence >= 0.8
    assert found("Which phone number does Anna Dirksen have?", "12", text, title=title).denied


def test_a_table_needs_no_rule_below_its_first_row() -> None:
    asked = "Which phone number does Anna Dirksen have?"
    assert found(asked, "4410", WITHOUT_RULE).evidence >= 0.8
    assert found(asked, "4471", WITHOUT_RULE).denied
    assert found(asked, "12", WITHOUT_RULE).denied


def test_what_a_question_does_not_name_is_not_denied() -> None:
    assert not found("How much is a ticket?", "7.50").denied
    assert not found("Which ticket costs 42 euros?", "The month pass.").denied
    assert not found("How much do two adults pay for a family ticket?", "15").evidence


ROOMS = """# Meeting rooms

| Room | Seats | Member per hour | Non-member per hour | Projector |
|---|---|---|---|---|
| Alder Room | 12 | 18.00 | 32.00 | yes |
| Birch Room | 8 | 12.00 | 20.00 | no |
| Elm Studio | 20 | 25.00 | 41.00 | no |
"""
TARIFFS = """# Parcels

| Weight | Europe zone 1 | Europe zone 2 | World |
|---|---|---|---|
| up to 2 kg | 13.50 | 18.40 | 25.00 |
| 2 to 5 kg | 16.00 | 22.10 | 34.30 |
"""


@pytest.mark.parametrize(
    ("question", "claim"),
    [
        ("How many seats does the Elm Studio have?", "The Elm Studio has 20 seats."),
        ("What does an hour in the Elm Studio cost for non-members?", "The Elm Studio costs 41 euros for non-members."),
    ],
)
def test_a_no_in_another_column_denies_nothing(question: str, claim: str) -> None:
    assert found(question, claim, ROOMS, title="Meeting rooms").evidence >= 0.8
    assert not found(question, claim, ROOMS, title="Meeting rooms").contradicts


@pytest.mark.parametrize("room", ["Alder Room", "Birch Room"])
@pytest.mark.parametrize("marks", [("yes", "no"), ("✓", "–"), ("x", "-")])
def test_a_yes_or_no_in_the_column_that_was_asked_for_decides(room: str, marks: tuple[str, str]) -> None:
    text = ROOMS.replace(" yes |", f" {marks[0]} |").replace(" no |", f" {marks[1]} |")
    asked = f"Does the {room} have a projector?"
    yes, no = f"Yes, the {room} has a projector.", f"No, the {room} does not have a projector."
    right, wrong = (yes, no) if room == "Alder Room" else (no, yes)
    assert found(asked, right, text).evidence >= 0.8
    assert not found(asked, right, text).denied
    assert found(asked, wrong, text).denied


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("Which room has no projector?", "Birch Room", "Alder Room"),
        ("Which room has a projector?", "Alder Room", "Birch Room"),
        ("Which room has a projector?", "The Alder Room has a projector.", "The Birch Room has a projector."),
    ],
)
def test_the_row_that_was_asked_for_is_one_that_says_so(question: str, right: str, wrong: str) -> None:
    assert found(question, right, ROOMS).evidence >= 0.8
    assert not found(question, right, ROOMS).denied
    assert found(question, wrong, ROOMS).denied


def test_a_number_in_a_columns_name_names_it_only_beside_its_words() -> None:
    asked = "What does a parcel of up to 2 kg to the World cost?"
    assert found(asked, "It costs 25.00 euros.", TARIFFS, title="Parcels").evidence >= 0.8
    assert not found(asked, "It costs 25.00 euros.", TARIFFS, title="Parcels").denied
    assert found(asked, "It costs 18.40 euros.", TARIFFS, title="Parcels").denied
    other = "What does a 2 to 5 kg parcel to Europe zone 2 cost?"
    assert found(other, "22.10 euros", TARIFFS, title="Parcels").evidence >= 0.8
    assert found(other, "16.00 euros", TARIFFS, title="Parcels").denied


FERRY = "| Line | First departure | Last departure |\n|---|---|---|\n| North shore | 06:30 | 22:15 |\n"


def test_the_last_is_not_the_first() -> None:
    asked = "When is the last departure to the North shore?"
    assert not found(asked, "The last departure is at 22:15.", FERRY).denied
    assert found(asked, "The last departure is at 06:30.", FERRY).denied


STAFF = "| Name | Role | Office |\n|---|---|---|\n| Anna Keller | Payroll | B 204 |\n| Sofia Marin | Travel | C 115 |\n"


def test_a_row_is_about_the_columns_of_what_was_asked_by() -> None:
    """The question names a cell, and asks for the head of its row."""
    by_office = found("Which name is in office C 115?", "Sofia Marin", STAFF, title="Staff")
    by_cell = found("Which name is in C 115?", "Sofia Marin", STAFF, title="Staff")
    assert by_office.evidence == by_cell.evidence == 1.0


@pytest.mark.parametrize(
    ("question", "claim", "text", "language"),
    [
        ("What does a day ticket cost for a child?", "A child pays 4 euros.", PRICES, "en"),
        ("Wat kost een dagkaart voor een kind?", "Een kind betaalt 4 euro.", "Kinderen betalen 4 euro.", "nl"),
    ],
)
def test_a_child_is_one_of_the_children(question: str, claim: str, text: str, language: str) -> None:
    with_plural = found(question, claim, text, language)
    with_singular = found(question, claim, text.replace("Kinderen", "Kind").replace("Children", "Child"), language)
    assert with_plural.evidence == pytest.approx(with_singular.evidence)
    assert not with_plural.denied


AGES = """| Age | Swim | Sauna |
|---|---|---|
| under 4 | 1.00 | – |
| 4–11 | 3.50 | 5 |
| 12 to 17 years | 5.00 | 8 |
| 18+ | 8.50 | 14 |
"""


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("What does a parcel of 4 kg to Europe zone 1 cost?", "It costs 16 euros.", "It costs 13.50 euros."),
        ("What does a 1 kg parcel to the World cost?", "25.00", "34.30"),
    ],
)
def test_a_size_that_was_asked_for_is_in_one_of_the_ranges(question: str, right: str, wrong: str) -> None:
    assert found(question, right, TARIFFS, title="Parcels").evidence >= 0.8
    assert not found(question, right, TARIFFS, title="Parcels").denied
    assert found(question, wrong, TARIFFS, title="Parcels").denied


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("What does a swim cost at 20?", "8.50", "5.00"),
        ("What does a swim cost for an 8-year-old?", "3.50", "5.00"),
        ("What does a swim cost for a child of 3?", "1.00", "3.50"),
        ("What does the sauna cost with 17 years?", "8", "14"),
    ],
)
def test_ages_are_mostly_told_without_their_unit(question: str, right: str, wrong: str) -> None:
    assert not found(question, right, AGES).denied
    assert found(question, right, AGES).evidence > 2 * found(question, wrong, AGES).evidence
    assert found(question, wrong, AGES).denied


def test_a_number_of_something_else_is_no_size() -> None:
    asked = "What do 3 visits to the sauna cost for somebody of 12?"
    assert not found(asked, "8", AGES).denied
    assert found(asked, "5", AGES).denied


REPAIRS = """| object | owner | repairer | result |
|---|---|---|---|
| Wall clock | Mr Lindgren | Jonas Tellmann | repaired |
| Record player | Ms Petrescu | Bram Vierkant | not repaired |
"""
TOOLS = """| Tool | Price per day | Price per week | Deposit |
|---|---|---|---|
| Orbital sander | 4.00 | 16.00 | 30 |
| Tile cutter | 8.50 | 35.00 | 75 |
"""


@pytest.mark.parametrize(
    ("question", "right", "wrong", "text"),
    [
        ("Who repaired the wall clock?", "Jonas Tellmann did.", "Mr Lindgren repaired the wall clock.", REPAIRS),
        (
            "What was the result of the record player?",
            "The record player was not repaired.",
            "The record player was repaired.",
            REPAIRS,
        ),
        ("Which tool costs more than 30 euros per week?", "The tile cutter.", "The orbital sander.", TOOLS),
        ("Which tool costs less than 5 euros per day?", "The orbital sander.", "The tile cutter.", TOOLS),
    ],
)
def test_words_and_comparisons_are_of_the_column_that_was_asked_for(
    question: str, right: str, wrong: str, text: str
) -> None:
    assert not found(question, right, text).denied
    assert found(question, wrong, text).denied
    assert found(question, right, text).evidence > 2 * found(question, wrong, text).evidence


@pytest.mark.parametrize("number", ["5.1.2", "1.3.2026", "10:30", "²", "1e5", "٣"])
def test_a_number_of_another_form_is_no_size(number: str) -> None:
    assert found(f"What does a swim cost for {number} years?", "3.50", AGES).evidence >= 0


OPENING = """| Day | April to June | July and August | September |
|---|---|---|---|
| Monday to Thursday | 09:00-12:00 | 08:00-20:00 | 09:00-12:00 |
| Friday | 14:00-20:00 | 08:00-21:00 | 09:00-12:00 |
| Saturday | 09:00-18:00 | 08:00-21:00 | 09:00-16:00 |
| Sunday | 10:00-12:00 | 09:00-18:00 | closed |
"""
CABINS = """| Item | Low season | High season |
|---|---|---|
| Cabin Otter (2 persons) | 58.00 | 82.00 |
| Cabin Heron (4 persons) | 84.00 | 119.00 |
"""


@pytest.mark.parametrize(
    ("text", "question", "right", "wrong"),
    [
        (OPENING, "When is it open on Friday in July?", "From 08:00 to 21:00.", "From 08:00 to 20:00."),
        (OPENING, "When is it open on Saturday in August?", "From 08:00 to 21:00.", "From 09:00 to 18:00."),
        (CABINS, "What does the Otter cabin cost for four persons?", "58 euros", "84 euros"),
        (CABINS, "What does the Heron cabin cost in high season?", "119 euros", "84 euros"),
        (
            CABINS,
            "What does the Heron cabin cost in high season?",
            "119 euros in high season, and 84 euros in low season.",
            "119 euros, and 84 euros for members.",
        ),
    ],
)
def test_no_value_of_an_answer_is_of_another_row_or_column(text: str, question: str, right: str, wrong: str) -> None:
    assert not found(question, right, text).denied
    assert found(question, wrong, text).denied


LESSONS = """| Lesson | Minutes per week | Children | Adults |
|---|---|---|---|
| Single lesson | 30 | 84 | 109 |
| Single lesson | 45 | 118 | 152 |
| Pair lesson | 45 | 66 | 85 |
"""
TEACHERS = """| Name | Instrument | Languages |
|---|---|---|
| Jolanda de Wit | cello | Dutch and German |
| Kwame Adjei | drums | English and French |
| Elif Sahin | piano | German and Turkish |
"""


@pytest.mark.parametrize(
    ("text", "question", "right", "wrong"),
    [
        (LESSONS, "How much does a single lesson of 45 minutes cost for adults?", "152", "109"),
        (LESSONS, "What does a 45-minute pair lesson cost a child?", "66", "118"),
        (TEACHERS, "Which teacher speaks Turkish?", "Elif Sahin speaks Turkish.", "Kwame Adjei speaks Turkish."),
        (TEACHERS, "Which teacher speaks Turkish?", "Elif Sahin", "Jolanda de Wit speaks Dutch and German."),
        (TEACHERS, "Who teaches the drums?", "Kwame Adjei teaches the drums.", "Elif Sahin teaches the drums."),
    ],
)
def test_a_row_that_lacks_what_another_one_has_of_the_question_is_another(
    text: str, question: str, right: str, wrong: str
) -> None:
    assert not found(question, right, text).denied
    assert found(question, wrong, text).denied or found(question, wrong, text).evidence < 0.1


@pytest.mark.parametrize(
    ("cell", "denied"), [("not included", True), ("included", False), ("not on the first floor", False)]
)
def test_a_cell_that_only_says_no_says_it_to_its_column(cell: str, denied: bool) -> None:
    table = f"| Ticket | Museum | Tower |\n| --- | --- | --- |\n| Year ticket | 22 | {cell} |"
    found = Evidence("Is the tower part of the year ticket?", [table]).of("Yes, the tower is part of the year ticket.")
    assert found.denied is denied
