"""The language of texts."""

from __future__ import annotations

import pytest

from retriever.languages import language_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Is Petra Nowicki the CFO?", "en"),
        ("Who is Anke Holmqvist?", "en"),
        ("How much is Kalendra?", "en"),
        ("Wer ist Korbinian Fuchs?", "de"),
        ("Was kostet Zephra 200?", "de"),
        ("Wie is Femke Dijkgraaf?", "nl"),
        ("Wanneer begint Hydraulics?", "nl"),
        ("Qui est Mira Castellane ?", "fr"),
        ("¿Quién dirige Brannagh?", "es"),
        ("Kim jest Anke Holmqvist?", "pl"),
        ("Πότε έγινε η έκθεση Los Angeles;", "el"),
        ("谁是经理？", "zh"),
        ("1998?!", "en"),
        ("", "en"),
        (
            "Employees may work from home for up to three days a week, but not from abroad for longer than a month.",
            "en",
        ),
    ],
)
def test_names_do_not_hide_the_language(text: str, code: str) -> None:
    assert language_of(text) == code
