"""`rag ask`: the answer, what it cites, and what else is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")
TOY = "smollm2-135m, a small demo model for tests; its answers are often wrong"


@pytest.mark.decoder_only("it tells of passes and drafts")
def test_ask_prints_answer_citations_passages_and_decoding(api_url: str, world: Any) -> None:
    quiet = rag("ask", "What jumps?", "-c", "animals", "--speculation", "casd", "--url", api_url)
    assert quiet.exit_code == 0, quiet.output
    assert "MAT" not in quiet.stdout
    result = rag("ask", "What jumps?", "-c", "animals", "--speculation", "casd", "--url", api_url, "-v")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == world.stage.text
    assert any(line.startswith("  [1] copied “The quick brown fox") and "(foxes 9–84)" in line for line in lines)
    assert any("MAT" in line and "drafter casd" in line and "accepted" in line for line in lines)
    assert "\x1b" not in result.stdout
    assert result.stderr == f"Model: {TOY}\n"


def test_ask_json_is_the_answer(api_url: str, world: Any) -> None:
    result = rag("ask", "What jumps?", "-c", "animals", "--seed", "5", "--json", "--url", api_url)
    answer = json.loads(result.stdout)
    assert (answer["answer"], answer["seed"], answer["status"]) == (world.stage.text, 5, "succeeded")
    assert result.stderr == ""


def test_a_question_needs_no_quotes(api_url: str) -> None:
    place = ("-c", "animals", "--json", "--url", api_url)
    assert json.loads(rag("ask", "What", "does", "it", *place).stdout)["question"] == "What does it"
    found = rag("search", *place[:2], "brown", "fox", "--json", "--url", api_url)
    assert found.stdout == rag("search", "brown fox", *place).stdout


@pytest.mark.parametrize(("option", "query"), [([], "What jumps in Porto?"), (["--no-rewrite"], "And in Porto?")])
def test_a_follow_up_can_be_searched_for_as_it_was_typed(api_url: str, option: list[str], query: str) -> None:
    place = ("-c", "animals", "--json", "--url", api_url)
    first = json.loads(rag("ask", "What jumps in Lisbon?", *place).stdout)
    again = json.loads(rag("ask", "And in Porto?", "-s", first["session_id"], *option, *place).stdout)
    assert again["retrieval_query"] == query


def test_ask_continues_a_session(api_url: str) -> None:
    turns = [
        json.loads(rag("ask", "What jumps?", "-c", "animals", "-s", "cli-talk", "--json", "--url", api_url).stdout)[
            "turn"
        ]
        for _ in range(2)
    ]
    assert turns == [1, 2]


def test_a_session_id_that_is_none_is_told_what_one_is(api_url: str) -> None:
    refused = rag("ask", "What jumps?", "-c", "animals", "-s", "my talk", "--url", api_url)
    assert refused.exit_code == 2
    said = "The id of a session should be 1 to 64 letters (a to z), digits, '-' or '_', got 'my talk'."
    assert refused.stderr == f"Error: {said}\n"


def test_ask_says_where_the_passages_do_not_hold_the_answer(api_url: str, world: Any) -> None:
    world.stage.text = "Bananas ripen."
    result = rag("ask", "What ripens?", "-c", "animals", "--url", api_url)
    assert "probably do not state this answer" in result.stdout


def test_a_citation_is_shown_once_in_the_words_of_its_source() -> None:
    from rich.console import Console

    from rag_service.cli.answers import show_sources

    cited = {"kind": "copied", "chunk_id": "c", "document_id": "d", "source_start": 0, "source_end": 4}
    places = [{"answer_start": start, "answer_end": start + 4} for start in (0, 5)]
    other = {**cited, **places[0], "source_start": 9, "source_end": 13, "kind": "retrieved"}
    passage = {"chunk_id": "c", "rank": 1, "title": "", "heading": "", "page": None, "in_prompt": True}
    passage |= {"text": "same but like it", "source_start": 0}
    answer = {
        "answer": "same same",
        "citations": [*({**cited, **place} for place in places), other],
        "passages": [{**passage, "earlier": False, "document_id": "d"}],
    }
    with (screen := Console(width=200)).capture() as captured:
        show_sources(answer, screen)
    assert [line for line in captured.get().splitlines() if "“" in line] == [
        "  [1] copied “same” (d 0–4)",
        "  [1] retrieved “like” (d 9–13)",
    ]
