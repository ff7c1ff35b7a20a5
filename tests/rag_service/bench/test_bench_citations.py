"""`rag bench citations`: marks read, agreement counted by hand, and whole runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_service.bench.citations import markdown
from rag_service.bench.plain_ngrams import plain_runs
from rag_service.bench.quotations import Agreement, MarkedAnswer, Quotation, agreement, read_marks, total
from rag_service.cli import app
from tests.support.fake_workers import save_tokenizer

PASSAGES = [
    "The quick brown fox jumps over the lazy dog every morning at seven.",
    "Over the bridge walk the visitors, and the lazy dog every morning sleeps.",
]


def test_marks_are_read_and_taken_out() -> None:
    assert read_marks("Sources say [ 2 A b ] , and [ 1 [sic] c ] .") == MarkedAnswer(
        "Sources say A b , and [sic] c .", (Quotation(12, 15, 1), Quotation(22, 29, 0))
    )
    assert read_marks("[ 10 a ] [ 1 b ]") == MarkedAnswer("a b", (Quotation(0, 1, 9), Quotation(2, 3, 0)))
    assert read_marks("none [1] [ x y ]") == MarkedAnswer("none [1] [ x y ]", ())


def spans(text: str) -> list[tuple[int, int]]:
    """One token a word, with the space in front of it."""
    found, start = [], 0
    for end in [*(i for i, character in enumerate(text) if character == " " and i), len(text)]:
        found.append((start, end))
        start = end
    return found


ANSWER = read_marks("So [ 1 red cats sleep ] while [ 2 dogs ] and [ 2 the mice run ] .")
"""So red cats sleep while dogs and the mice run . (11 tokens, 7 of them marked)"""


def cite(*said: tuple[str, int]) -> list[Quotation]:
    return [
        Quotation(ANSWER.text.index(words), ANSWER.text.index(words) + len(words), passage) for words, passage in said
    ]


def counted(*said: tuple[str, int], threshold: int = 2) -> Agreement:
    return agreement(ANSWER, spans(ANSWER.text), cite(*said), threshold)


def test_everything_right() -> None:
    found = counted(("red cats sleep", 0), ("dogs", 1), ("the mice run", 1))
    assert found == Agreement(
        answers=1,
        both=7,
        cited=7,
        quoted=7,
        quotations=3,
        found=3,
        right=3,
        long=2,
        long_right=2,
        right_of_found=3,
    )
    assert (found.precision, found.recall, found.f1) == (1.0, 1.0, 1.0)


def test_tokens_count_whichever_passage_is_cited() -> None:
    found = counted(("red cats sleep while", 1))
    assert (found.both, found.cited, found.quoted) == (3, 4, 7)
    assert (found.precision, found.recall, found.f1) == (3 / 4, 3 / 7, 6 / 11)


@pytest.mark.parametrize(
    ("said", "right", "right_of_found"),
    [
        ([("red cats sleep", 0)], 1, 1),
        ([("red cats sleep", 1)], 0, 0),
        ([("red cats", 0)], 1, 1),
        ([("cats", 0)], 0, 1),  # a third of it: found, but not right
        ([("red", 1), ("cats sleep", 0)], 1, 1),
        ([("red", 0), ("cats", 1)], 0, 0),  # half and half
        ([], 0, 0),
    ],
)
def test_a_quotation_is_right_if_most_of_it_is_cited_to_its_passage(
    said: list[tuple[str, int]], right: int, right_of_found: int
) -> None:
    found = counted(*said)
    assert (found.right, found.long_right, found.right_of_found) == (right, right, right_of_found)
    assert found.found == (len(said) > 0)


def test_short_quotations_count_apart() -> None:
    found = counted(("dogs", 1))
    assert (found.right, found.long, found.long_right) == (1, 2, 0)
    assert counted(("dogs", 1), threshold=1).long == 3
    assert counted(threshold=4).long == 0


def test_a_mark_that_ends_within_a_token_marks_the_token() -> None:
    answer = MarkedAnswer("cats sleep", (Quotation(0, 7, 0),))
    assert agreement(answer, [(0, 4), (4, 10)], [], 2).quoted == 2


def test_white_space_counts_nowhere() -> None:
    answer = MarkedAnswer("a \n b", (Quotation(0, 5, 0),))
    found = agreement(answer, [(0, 1), (1, 3), (3, 5)], [Quotation(0, 5, 0)], 2)
    assert (found.both, found.cited, found.quoted) == (2, 2, 2)


def test_counts_of_answers_add_up() -> None:
    one = counted(("dogs", 1))
    assert total([one, one, one]) == Agreement(3, 3, 3, 21, 9, 3, 3, 6, 0, 3)
    assert total([]) == Agreement()
    assert total([one, replace(one, both=0)]).f1 < one.f1


def test_plain_matching_takes_the_longest_run_of_the_best_ranked_passage() -> None:
    answer = [9, 1, 2, 3, 4, 8, 5, 6]
    assert plain_runs(answer, [[1, 2, 3], [7, 1, 2, 3, 4]], 2) == [(1, 5, 1)]
    assert plain_runs(answer, [[5, 6, 1, 2], [1, 2], [3, 4, 5, 6]], 2) == [(1, 3, 0), (3, 5, 2), (6, 8, 0)]
    assert plain_runs(answer, [[1, 9]], 2) == []
    assert plain_runs([], [[1]], 1) == []


def write(file: Path, *items: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    return file


def item(number: int, *reference: str) -> dict[str, Any]:
    return {"id": f"i{number}", "context": PASSAGES, "reference": reference}


RIGHT = "Look: [ 1 the quick brown fox jumps over ] a fence, and [ 2 the lazy dog every morning sleeps. ]"
TIED = "Look: [ 2 over the bridge walk ] where [ 2 the lazy dog every morning ] now is."
WRONG = "[ 1 Over the bridge walk the visitors ]."


def run(tmp_path: Path, data: Path, *arguments: str) -> dict[str, Any]:
    out = tmp_path / "out.json"
    command = [
        "bench",
        "citations",
        "--data",
        str(data),
        "--model",
        str(tmp_path / "tiny"),
        "--json",
        str(out),
        *arguments,
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return dict(json.loads(out.read_text()))


@pytest.mark.usefixtures("own_folder")
def test_a_whole_run(tmp_path: Path) -> None:
    save_tokenizer(tmp_path / "tiny")
    data = write(tmp_path / "q.jsonl", item(1, RIGHT), item(2, TIED, WRONG), item(3, RIGHT))
    result = run(tmp_path, data, "--min-run", "4", "--markdown", str(tmp_path / "out.md"))
    rows = {(row["method"], row["part"]): row for row in result["rows"]}
    assert list(rows) == [
        (method, part) for method in ("citations", "n-grams") for part in ("all", "first half", "second half")
    ]
    whole = rows["citations", "all"]
    assert whole["counts"]["answers"] == 4
    assert whole["counts"]["quotations"] == 7
    assert whole["counts"]["right"] == 6
    assert whole["right"] == whole["right_of_all"] == whole["right_of_found"] == round(6 / 7, 4)
    halves = [rows["citations", part]["counts"] for part in ("first half", "second half")]
    assert {name: halves[0][name] + halves[1][name] for name in halves[0]} == whole["counts"]
    assert {half["answers"] for half in halves} in ({1, 3}, {2})
    assert rows["n-grams", "all"]["counts"]["right"] == 5
    page = (tmp_path / "out.md").read_text()
    assert "| citations | all | 4 |" in page
    assert page == markdown(result)
    assert str(tmp_path) not in page + json.dumps(result)
    assert "fox" not in page + json.dumps(result)


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"context": None}, "line 1 of"),
        ({"reference": None}, "quotations marked as"),
        ({"reference": ["[ 3 no ]"]}, "marks a passage that it does not have"),
        ({"reference": ["[ 0 no ]"]}, "marks a passage that it does not have"),
    ],
)
def test_items_that_cannot_be_used(
    tmp_path: Path, changes: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tokenizer(tmp_path / "tiny")
    data = write(tmp_path / "q.jsonl", item(1, RIGHT) | changes)
    command = [
        "bench",
        "citations",
        "--data",
        str(data),
        "--model",
        str(tmp_path / "tiny"),
        "--json",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert told in result.output + capsys.readouterr().err
    assert not (tmp_path / "out").exists()
