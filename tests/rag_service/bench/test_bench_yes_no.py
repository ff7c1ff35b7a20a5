"""Judging answers to questions for a yes or no: by their first word, or by what they state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decoder.recording.prompts import read_fields
from rag_service.bench.answers import judge, yes_no
from rag_service.bench.answers.items import Question, load
from rag_service.bench.answers.outcomes import Judged, Outcome, judged

ITEMS = Path(__file__).parents[3] / "benchmarks" / "items"
GROUPS = (("not allowed", "restaurant"), ("stay outside",))


def entry(answer: str, truth: str = "No", note: str | None = None, nearest: str = "") -> Judged:
    references = (truth,) if truth else ()
    question = Question(
        "q1", "yes_no", "en", "yes_no", ("May dogs come in?",), references, statements=GROUPS if truth else ()
    )
    fields: dict[str, Any] = {
        "finish_reason": "stop", "grounded": None, "passages": [], "cited": [], "prompt_tokens": 1, "tokens": 1,
        "steps": 1, "first_ms": 1.0, "total_ms": 1.0,
    }  # fmt: skip
    outcome = Outcome("q1", answer, **fields, note=note, nearest=nearest)
    return question, outcome, judged(question, outcome, [])


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("No, dogs must stay outside.", True),
        ("no", True),
        ("Dogs are not allowed in the restaurant.", True),
        ("They stay outside!", True),
        ("Yes, but they are not allowed in the restaurant.", False),
        ("Dogs are allowed in the restaurant.", False),
        ("Nobody knows.", False),
        ("", False),
        ("The documents do not say whether they are not allowed in the restaurant.", False),
    ],
)
def test_the_first_word_or_what_is_stated_decides(answer: str, right: bool) -> None:
    assert entry(answer)[2].right is right


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Ja, gern.", True),
        ("Nee, dat mag niet.", False),
        ("¡Sí!", True),
        ("Nein.", False),
        ("Yesterday", None),
        ("", None),
    ],
)
def test_what_an_answer_begins_with(answer: str, said: bool | None) -> None:
    assert judge.says_yes(answer) is said


def test_all_phrases_of_a_group_are_needed_as_whole_words() -> None:
    assert judge.states("Dogs are NOT allowed in a Restaurant", GROUPS)
    assert not judge.states("Dogs are not allowed.", GROUPS)
    assert not judge.states("Dogs are not allowed in restaurants.", GROUPS)
    assert not judge.states("Dogs are not allowed.", ())


def test_each_truth_has_a_row() -> None:
    check = "Check it."
    rows = yes_no.summary(
        [
            entry("No."),
            entry("They stay outside.", note=check, nearest="Dogs stay outside."),
            entry("Yes.", note=check, nearest="Cats stay inside."),
            entry("The documents do not say.", note=check),
            entry("Yes.", truth="Yes"),
            entry("The documents do not say.", truth="", note=check),
            entry("Yes.", truth=""),
        ]
    )
    assert [(row["truth"], row["questions"]) for row in rows] == [("yes", 1), ("no", 4), ("not in the documents", 2)]
    assert [rows[1][name] for name in yes_no.COUNTS] == [2, 1, 1, 1, 1, 1, 2, 1]
    assert [rows[2][name] for name in yes_no.COUNTS] == [1, 0, 1, 1, 1, 0, 0, 0]
    assert "| no | 4 | 2 | 1 | 1 | 1 | 1 | 1 | 2 | 1 |" in yes_no.markdown(rows)
    assert yes_no.markdown(yes_no.summary([])) == []


@pytest.mark.parametrize("name", ["yes_no", "yes_no_harbour"])
def test_questions_say_what_decides_them(name: str) -> None:
    questions = load([ITEMS / f"{name}.jsonl"]).questions
    assert len(questions) > 60
    for question in questions:
        assert question.statements is not None
        assert bool(question.statements) is question.answerable
        assert not judge.states(question.turns[-1], question.statements), "a question that is repeated decides nothing"


def test_the_sentences_that_decide_are_right_answers() -> None:
    items = [item for _, item in read_fields(ITEMS / "yes_no_harbour.jsonl") if item["meta"]["answerable"]]
    assert len(items) == 48
    for item in items:
        assert judge.states(item["meta"]["why"], item["meta"]["statements"]), item["id"]
