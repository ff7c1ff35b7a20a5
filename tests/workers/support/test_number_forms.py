"""Numbers that texts write in several ways."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence
from workers.support.words.numbers import forms, others


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200", "1200"),
        ("1.200", "1,200"),
        ("9:30", "9.30"),
        ("3.50", "3.5"),
        ("30.00", "30"),
        ("1.200,00", "1200"),
        ("9:00", "9"),
        ("two", "2"),
        ("zwölf", "12"),
        ("twee", "two"),
        ("vier", "4"),
    ],
)
def test_they_are_one_number(one: str, other: str) -> None:
    assert others([one], [other]) == others([other], [one]) == set()


@pytest.mark.parametrize(
    ("one", "other"), [("12", "120"), ("1,200", "120"), ("30.00", "3"), ("two", "three"), ("2", "two-thirds")]
)
def test_they_are_two(one: str, other: str) -> None:
    assert others([one], [other]) == {one}


def test_words_have_no_form() -> None:
    assert forms(["dogs", "a"]) == set()


@pytest.mark.parametrize(
    ("text", "answer", "denied"),
    [
        ("The warranty lasts two years and costs 1,200 euros.", "The warranty lasts 2 years.", False),
        ("The warranty lasts two years and costs 1,200 euros.", "The warranty costs 1200 euros.", False),
        ("The warranty lasts two years and costs 1,200 euros.", "The warranty costs 1300 euros.", True),
        ("Die Garantie gilt zwei Jahre.", "Die Garantie gilt 2 Jahre.", False),
        ("Die Garantie gilt zwei Jahre.", "Die Garantie gilt 3 Jahre.", True),
    ],
)
def test_an_answer_may_write_them_otherwise(text: str, answer: str, denied: bool) -> None:
    language = "de" if "Garantie" in text else "en"
    found = Evidence("How long is it and what does it cost?", [text], language).of(answer)
    assert found.denied == denied
    assert not found.contradicts or denied
