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
