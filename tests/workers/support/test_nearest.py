"""The sentence of the passages that is nearest to a question: what a reader looks up when the answer is doubtful."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from rag_service.contract.answer import NearestOut
from workers.broker.messages import Checking, GenerateJob, Place
from workers.support.assessment import assess
from workers.support.calibration import shipped
from workers.support.evidence import Evidence
from workers.support.passages.rows import rows_of

RULES = """## Luggage

Folded electric scooters count as hand luggage if they weigh no more than 15 kg. Bicycles stay on the car deck.

## Animals

Dogs up to 10 kg travel free. They are not allowed in the restaurant; assistance dogs may go everywhere."""
PRICES = """## Harbour museum

| | Museum | Lighthouse |
| --- | --- | --- |
| Adults | 8.00 | 3.00 |
| Annual ticket | 22.00 | not included |

The museum is closed on Mondays, except for Easter Monday."""


def nearest(question: str, language: str = "en", passages: tuple[str, ...] = (RULES, PRICES)) -> str | None:
    found = Evidence(question, passages, language, ["On board", "Museum"][: len(passages)]).nearest()
    if found is None:
        return None
    text = passages[found.passage][found.start : found.end]
    assert text == found.text
    return text


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Does a folded e-scooter of 18 kg count as hand luggage?", "Folded electric scooters"),
        ("Are dogs allowed in the restaurant?", "They are not allowed"),
        ("Is the museum open on Easter Monday?", "The museum is closed"),
        ("Is there an annual ticket?", "| Annual ticket"),
        ("How long are dogs banned from the restaurant?", "They are not allowed"),
    ],
)
def test_it_has_most_of_what_was_asked(question: str, begins: str) -> None:
    found = nearest(question)
    assert found is not None
    assert found.startswith(begins)


def test_a_row_comes_with_what_heads_its_columns() -> None:
    def place(question: str) -> Place:
        job = cast(GenerateJob, SimpleNamespace(passages=[{"text": PRICES, "title": "Museum"}], question=question))
        found = assess(job, Checking(question=question, language="en"), "Yes.", {}, shipped()[0], False).nearest
        assert found is not None
        return found

    row = place("Is there an annual ticket?")
    assert PRICES[row.start : row.end] == "| Annual ticket | 22.00 | not included |"
    assert row.columns == ["", "Museum", "Lighthouse"]
    assert place("Is the museum open on Mondays?").columns == []


@pytest.mark.parametrize(
    "table",
    [
        "| Opening hours | daily |\n| --- | --- |\n| Phone number | 0551 123 |",
        "| Room | 12 | upstairs |\n| --- | --- | --- |\n| Phone number | 0551 123 | Kate |",
    ],
)
def test_a_first_row_that_may_be_a_record_heads_nothing(table: str) -> None:
    """Tables of names and values have no head, but their first row stands where heads do."""
    *_, row = rows_of(table, "", str.split).values()
    assert not row.has_head


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        (
            "| Annual ticket | 22.00 | no |",
            ["", "Museum", "Tower"],
            "“Annual ticket · Museum: 22.00 · Tower: no” (Fees)",
        ),
        ("| Annual ticket | | no |", ["", "Museum", "Tower"], "“Annual ticket · Tower: no” (Fees)"),
        ("| Annual ticket | 22.00 |", ["", "Museum", "Tower"], "“Annual ticket · 22.00” (Fees)"),
        ("Ticket | 22 \\| 23", ["", "Museum"], "“Ticket · Museum: 22 \\| 23” (Fees)"),
        ("Closed on Mondays.", [], "“Closed on Mondays.” (Fees)"),
        ("- Closed on Mondays.", [], "“Closed on Mondays.” (Fees)"),
    ],
)
def test_people_read_cells_with_their_heads(text: str, columns: list[str], shown: str) -> None:
    ids = {"document_id": "d", "chunk_id": "c", "source_start": 0, "source_end": 9}
    assert NearestOut(text=text, title="Fees", columns=columns, **ids).shown() == shown  # type: ignore[arg-type]


def test_other_languages() -> None:
    text = "Der Grillplatz ist bis 22 Uhr offen. Kinder unter 8 Jahren müssen auf den Stegen eine Schwimmweste tragen."
    found = nearest("Muss mein Sohn auf dem Steg eine Schwimmweste anhaben?", "de", (text,))
    assert found is not None
    assert found.startswith("Kinder")


@pytest.mark.parametrize("question", ["Who wrote Hamlet?", "", "Is it?", "?!"])
def test_there_is_none_for_what_no_passage_speaks_of(question: str) -> None:
    assert nearest(question) is None
    assert nearest("Are dogs allowed?", passages=()) is None


def test_a_heading_is_none() -> None:
    found = nearest("What about the harbour museum?", passages=(PRICES,))
    assert found is None or not found.startswith("#")


def test_questions_titles_and_links_are_none() -> None:
    text = """In an emergency
The emergency number is 4999, at any hour.

- [What is the emergency number?](#emergency)

What is the emergency number?
It stands by every door."""
    found = nearest("What is the emergency number?", passages=(text,))
    assert found is not None
    assert found.strip().endswith("The emergency number is 4999, at any hour.")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Members register on the [website](https://example.org) two weeks before.", "When do members register?"),
        ("Admission for adults 8.00 euros", "What is the admission for adults?"),
        ("- Dogs travel free", "Do dogs travel free?"),
        ('He said: "Dogs travel free."', "Do dogs travel free?"),
    ],
)
def test_sentences_with_links_figures_or_signs_of_a_list_are_some(text: str, question: str) -> None:
    assert nearest(question, passages=(f"{text}\nZebras graze near the river.",)) == text


@pytest.mark.parametrize("text", ["3. Cancelling a course", "Cancelling a course", "[Cancelling a course](#cancel)"])
def test_a_line_that_only_names_something_is_none(text: str) -> None:
    assert nearest("How is cancelling a course done?", passages=(f"{text}\nZebras graze near the river.",)) is None


def test_a_code_that_was_asked_for_has_to_be_there() -> None:
    text = "The longest stay at the charging points of P2 is 8 hours.\n\nOn P1, cars may stay for 3 hours."
    assert nearest("What is the longest stay on P1?", passages=(text,)) == "On P1, cars may stay for 3 hours."


def test_a_range_with_a_number_of_the_question_is_nearer() -> None:
    free, half = "- Up to 30 days before, cancelling is free.", "- From 29 to 8 days before it cancelling costs half."
    assert nearest("What do I pay for cancelling 10 days before?", passages=(f"{free}\n{half}",)) == half
    assert nearest("What do I pay for cancelling 40 days before?", passages=(f"{free}\n{half}",)) == free


def test_of_equals_the_first_one_of_the_best_passage() -> None:
    same = "Dogs travel free."
    found = Evidence("Do dogs travel free?", [same, same]).nearest()
    assert found is not None
    assert (found.passage, found.start) == (0, 0)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Dogs are not allowed in the restaurant.", 0.99, 1.0),
        ("The restaurant opens at noon.", 0.2, 0.8),
        ("Bicycles stay on the car deck.", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_how_much_of_what_was_asked_a_text_speaks_of(text: str, least: float, most: float) -> None:
    spoken = Evidence("Are dogs allowed in the restaurant?", [RULES, PRICES]).spoken(text)
    assert least <= spoken <= most
