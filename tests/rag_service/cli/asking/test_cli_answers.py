"""An answer in the terminal, from the events of its stream."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from rich.console import Console

from rag_service.cli import answers
from rag_service.cli.api import Api
from rag_service.cli.console import out
from rag_service.client import calls


def test_an_answer_that_waits_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    events = (
        ("1-0", "passages", {"answer_id": "a", "passages": []}),
        (None, "waiting", {"answers": 2}),
        ("2-0", "waiting", {"answers": 1}),
        ("3-0", "waiting", {"answers": 0}),
        ("4-0", "token", {"text": "Yes."}),
        ("5-0", "done", {"answer": "Yes."}),
    )
    lines = [
        f"{f'id: {entry}{chr(10)}' if entry else ''}event: {name}\ndata: {json.dumps(data)}\n\n"
        for entry, name, data in events
    ]
    reply = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text="".join(lines))
    call = calls.query("What?", {})
    with Api("http://rag", transport=httpx.MockTransport(lambda _: reply)) as api:
        assert answers.listen(api, call, out()) == {"answer": "Yes."}
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["Waiting behind 2 other answers …", "Waiting behind 1 other answer …"]
    assert printed.out == "Yes.\n"


@pytest.mark.parametrize(
    ("calibrated", "signals", "said"),
    [
        (True, {"readout": 0.5}, "Support 0.90\n"),
        (False, {"evidence": 1.0, "check": 0.5}, "Support 0.90, not calibrated for this model, prompt or language\n"),
        (False, {"evidence": 1.0}, "Support 0.90, by its words alone\n"),
        (False, None, "Support 0.90, by its words alone\n"),
    ],
)
def test_what_a_support_is_short_of_is_said_as_it_is(
    calibrated: bool, signals: dict[str, float] | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below edits, which the model is not asked about, stood that their calibration is for another model."""
    answer = {
        "answer": "Yes.", "note": None, "support": 0.9, "calibrated": calibrated, "signals": signals, "passages": [],
        "citations": [], "session_id": "s", "answer_id": "a", "base": None, "finish_reason": "stop",
    }  # fmt: skip
    answers.show(answer, out(), verbose=False)
    assert said in capsys.readouterr().out


def test_a_doubtful_answer_is_told_with_the_nearest_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    nearest = {"text": "| Dog | | [free] |", "columns": ["Who", "Deck", "Fare"], "title": "Fares"}
    answer: dict[str, Any] = {"note": "Check it.", "nearest": nearest}
    answers.show_note(answer, out())
    said = "Nearest in the documents: “Who: Dog · Fare: [free]” (Fares)"
    assert capsys.readouterr().out.splitlines() == ["Check it.", said]
    answers.show_note({"note": None}, out())
    assert capsys.readouterr().out == ""


def test_what_a_conversation_shows_of_the_sources_is_a_line() -> None:
    passages = [{"chunk_id": f"c{n}", "rank": n, "title": f"{n}.md", "heading": "Top"} for n in range(1, 6)]
    cited = [{"chunk_id": f"c{n}"} for n in (2, 1, 2, 3, 4)]
    answer: dict[str, Any] = {"passages": passages, "citations": cited, "support": 0.5, "calibrated": True}
    assert answers.sources_line(answer) == "[2] 2.md > Top · [1] 1.md > Top · [3] 3.md > Top · … · support 0.50"
    assert answers.sources_line({**answer, "citations": cited[:1], "support": None}) == "[2] 2.md > Top"
    assert answers.sources_line({**answer, "citations": [], "support": None}) == ""


def test_the_column_names_of_a_table_are_no_heading_for_people() -> None:
    table = {"chunk_id": "c1", "rank": 1, "title": "events", "heading": "date | event | place"}
    answer: dict[str, Any] = {"passages": [table], "citations": [{"chunk_id": "c1"}], "support": None}
    assert answers.sources_line(answer) == "[1] events"
    table["heading"] = "Summer > Prices > Name | Age"
    assert answers.sources_line(answer) == "[1] events > Summer > Prices"
    shown = {**table, "document_id": "e.csv", "page": None, "in_prompt": True, "earlier": False}
    with (screen := Console(width=200)).capture() as captured:
        answers.show_sources({"citations": [], "passages": [shown]}, screen)
    assert captured.get().splitlines()[1] == "  [1] events > Summer > Prices (e.csv)"
