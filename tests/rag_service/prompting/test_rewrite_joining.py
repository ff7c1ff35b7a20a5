"""A follow-up behind the question before it."""

from __future__ import annotations

import pytest

from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.rewriting.joining import behind, says_little


@pytest.mark.parametrize(
    ("question", "little"),
    [
        ("en hoeveel kost dat?", True),
        ("And when?", True),
        ("Und für Kinder?", True),
        ("Wie viel kostet das?", True),
        ("Does that apply to foxes, too?", False),
        ("Hoeveel kost het om een fiets te huren?", False),
        ("Wann öffnet das Museum?", False),
        ("Who is the treasurer?", False),
        ("Öffnungszeiten?", False),
        ("Is er wifi?", False),
        ("How much?", True),
        ("Wer macht das und was kostet es?", True),
        ("Who does it and what does it cost?", True),
        ("Wie doet dat en wat kost het?", True),
        ("Wer kocht das Essen und was kostet es?", False),
    ],
)
def test_what_says_little(question: str, little: bool) -> None:
    assert says_little(question) == little


def test_the_first_and_the_last_question_before_stay() -> None:
    before = "Wanneer komt de mest?"
    for follow_up in ("En hoeveel kost dat?", "en voor leden?", "en 's avonds?"):
        before = behind(before, follow_up)
    assert before == "Wanneer komt de mest? en voor leden? en 's avonds?"


def test_points_end_no_question() -> None:
    before = "Does the 8 a.m. ferry leave from St. Malo? And back?"
    assert behind(before, "How much is that?") == f"{before} How much is that?"
    assert behind("渡轮几点开？多久？", "多少钱？") == "渡轮几点开？ 多久？ 多少钱？"


def test_the_model_reads_what_was_typed() -> None:
    """The question before stands in the conversation already."""
    found = Retrieved("When does it go? And when?", rewrite_ms=1.0, joined=True)
    assert found.in_full("And when?") == "And when?"
