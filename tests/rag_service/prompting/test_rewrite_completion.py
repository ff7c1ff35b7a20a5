"""Whether the documents bear out what a rewrite added to a question that lacks nothing."""

from __future__ import annotations

import pytest

from rag_service.prompting.rewriting.completion import bears_out

LIBRARY = {
    "title": "rules.txt",
    "heading": "",
    "text": """\
The city library has two branches: Northgate and Seaview.

Seaview
The Seaview branch is open from 13:00 to 19:00. The head is Mr Fox.

Lending

Books may be kept for 28 days, DVDs for 7 days. Reading at the branches is free.""",
}
FERRIES = [
    {
        "title": f"{name} ferry",
        "heading": "",
        "text": f"Bicycles cost {price}.\n\nThe crossing takes {minutes} minutes.",
    }
    for name, price, minutes in (("Morvik", "nothing", 40), ("Skellan", "4.50", 25))
]


@pytest.mark.parametrize(
    ("question", "completed", "passages", "borne_out"),
    [
        ("How long is the crossing?", "How long is the crossing on the Morvik ferry?", FERRIES, True),
        ("How long is the crossing?", "How long is the crossing of the Tarvo?", FERRIES[1:], False),
        (
            "How many days may books be kept?",
            "How many days may books be kept at the Seaview branch?",
            [LIBRARY],
            False,
        ),
        ("Who is the head?", "Who is the head of the Seaview branch?", [LIBRARY], True),
        ("Who pays the fine?", "Who pays the fine at Seaview?", [LIBRARY], True),
        ("How long is the crossing?", "How long is the crossing on the Morvik ferry?", [], True),
        ("How long is the crossing?", "How long is the crossing exactly?", FERRIES, False),
    ],
)
def test_a_paragraph_about_what_was_asked_names_what_was_added(
    question: str, completed: str, passages: list[dict[str, str]], borne_out: bool
) -> None:
    assert bears_out(completed, question, passages) is borne_out


def test_headings_belong_to_the_paragraphs_below_them() -> None:
    text = "# Pumps\n\n## Torvik 450\n\nIt weighs 41 kg.\n\n## Discounts\n\nThere is a discount from 10 pieces on."
    passage = {"title": "pumps.md", "heading": "Pumps", "text": text}
    assert bears_out("How many kg does it weigh for the Torvik?", "How many kg does it weigh?", [passage])
    assert not bears_out("Is there a discount on the Torvik?", "Is there a discount?", [passage])
    below = {"title": "pumps.md", "heading": "Pumps > Torvik 450", "text": "There is a discount of 8 percent."}
    assert bears_out("Is there a discount on the Torvik?", "Is there a discount?", [below])
