"""`rag sessions show` and `export`: a conversation in the terminal and as a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_service.cli.commands.asking.sessions import _answer as answer_of
from rag_service.cli.commands.asking.transcript import as_markdown, with_sources
from rag_service.contract.notes import DOUBTFUL
from tests.support.command_line import rag
from workers.broker.app import make_redis

pytestmark = pytest.mark.usefixtures("own_folder")


def passage(name: str, **more: Any) -> dict[str, Any]:
    return {"chunk_id": name, "document_id": f"{name}.md", "title": name.title(), "heading": "", "page": None, **more}


def citation(name: str, start: int, end: int, kind: str = "copied", **more: Any) -> dict[str, Any]:
    return {"chunk_id": name, "answer_start": start, "answer_end": end, "kind": kind, **more}


def test_numbers_stand_behind_the_words_that_are_cited() -> None:
    answer = {
        "answer": "Foxes jump. Dogs rest. Who knows?",
        "passages": [
            passage("unused"),
            passage("fox", heading="Fox > Legs > Name | Number", page=3, date="2025"),
            passage("dog"),
        ],
        "citations": [
            citation("dog", 0, 22, "retrieved"),
            citation("fox", 0, 12),
            citation("gone", 23, 33),
        ],
    }
    assert with_sources(answer) == (
        "Foxes jump. [2] Dogs rest. [3] Who knows?\n\nSources:\n\n"
        "* [2] Fox · Legs · page 3 · 2025 · fox.md\n* [3] Dog · dog.md"
    )


def test_a_source_of_neighbouring_words_is_named_once_and_collections_are_told_apart() -> None:
    answer = {
        "answer": "One two three",
        "passages": [passage("a", collection="x"), passage("a", collection="y")],
        "citations": [citation("a", 0, 4, collection="y"), citation("a", 4, 8, collection="y"), citation("a", 8, 13)],
    }
    assert with_sources(answer).startswith("One two [2] three\n\nSources:")
    assert with_sources({**answer, "citations": None}) == "One two three"


def test_the_latest_version_of_each_question_is_told() -> None:
    turns = [("a", None, None, "Q?", "1"), ("b", None, None, "R\n?", "2"), ("c", "a", "Edit.", "Q?", "3")]
    turns.append(("d", "c", "Again.", "Q?", "4"))
    keys = ("answer_id", "base", "instruction", "question", "answer")
    empty = {"passages": [], "citations": [], "warning": None}
    answers = [{**dict(zip(keys, turn, strict=True)), **empty} for turn in turns]
    answers[1] |= {"warning": "Take care.", "nearest": {"text": "Rest.", "title": "Foxes"}}
    assert as_markdown(answers, "2026-03-05") == (
        "# Q?\n\n*2026-03-05*\n\n## Q?\n\n*Changed: Again.*\n\n4\n\n## R ?\n\n> Take care.\n\n"
        "> Nearest in the documents: “Rest.” (Foxes)\n\n2\n"
    )


def test_a_session_is_shown_and_exported(api_url: str, world: Any, tmp_path: Path) -> None:
    place = ("--url", api_url)
    first = json.loads(rag("ask", "What jumps?", "-c", "animals", "-s", "kept", "--json", *place).stdout)
    exported = rag("sessions", "export", "kept", *place)
    said = world.stage.text
    assert re.match(r"# What jumps\?\n\n\*20\d\d-\d\d-\d\d\*\n\n## ", exported.stdout)
    assert f"\n## What jumps?\n\n{said} [1]\n\nSources:\n\n* [1] Foxes · Foxes / Bridges · foxes\n" in exported.stdout
    rag("ask", "Who rests?", "-s", "kept", *place)
    edited = rag("edit", first["answer_id"], "Say that it rests.", *place)
    assert edited.exit_code == 0, edited.output
    lines = rag("sessions", "show", "kept", *place).stdout.splitlines()
    assert [line for line in lines if line[:2] in ("1.", "2.", "3.")] == [
        "1. What jumps?",
        "2. Who rests?",
        "3. Edit of turn 1: Say that it rests.",
    ]
    written = rag("sessions", "export", "kept", "-o", "talk.md", *place)
    assert (written.stdout, written.stderr) == ("", "Wrote talk.md.\n")
    text = (tmp_path / "talk.md").read_text()
    assert "\n## What jumps?\n\n*Changed: Say that it rests.*\n\n" in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## What jumps?", "## Who rests?"]
    turns = json.loads(rag("sessions", "export", "kept", "--json", *place).stdout)
    assert turns[0]["citations"] == first["citations"]
    assert "cannot be written: Is a directory" in rag("sessions", "export", "kept", "-o", ".", *place).stderr
    assert "no session 'other'" in rag("sessions", "export", "other", *place).stderr


def test_an_answer_that_has_expired_is_exported_without_citations(api_url: str, world: Any) -> None:
    first = json.loads(rag("ask", "What jumps?", "-c", "animals", "-s", "old", "--json", "--url", api_url).stdout)
    redis = make_redis(world.redis_url)
    assert redis.delete(*redis.scan_iter(f"rag:*:answer:{first['answer_id']}*"))
    redis.close()
    exported = rag("sessions", "export", "old", "--url", api_url).stdout
    assert exported.endswith(f"*\n\n## What jumps?\n\n{world.stage.text}\n")


@pytest.mark.parametrize(
    ("note", "warns"),
    [
        (DOUBTFUL, True),
        (f"Nothing was changed. {DOUBTFUL}", True),
        ("Nothing was changed: this is the same text.", False),
    ],
)
def test_a_rewrite_of_an_answer_with_a_warning_keeps_it(note: str, warns: bool) -> None:
    answer = {"note": note, "answerable": None, "citations": []}
    api: Any = SimpleNamespace(json=lambda call: answer)
    assert answer_of(api, {"answer_id": "a"})["warning"] == (note if warns else None)
