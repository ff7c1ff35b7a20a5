"""`rag bench sessions`: what it says, what it counts, and whole runs over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decoder.recording.prompts import BenchError
from rag_service.bench import main
from rag_service.bench.conversations import (
    EDIT,
    EDIT_SENTENCE,
    LONG,
    ROOM,
    Conversation,
    Material,
    Message,
    load_material,
)
from rag_service.bench.outcomes import Measured, MeasuredFile, Turn, measured_path
from rag_service.bench.report import holds, markdown
from rag_service.bench.rows import differences, follow_ups, grouped, session_rows
from rag_service.bench.schedule import modes_of, plan
from rag_service.cli import app
from rag_service.client import RagClient

PASSAGES = [
    "The quick brown fox jumps over the lazy dog every morning.",
    "Over the bridge walk visitors.",
    "It rests at noon.",
]
MODES = ["auto", "auto without reuse", "plain"]


def item(number: int, benchmark: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"{benchmark}-{number}", "benchmark": benchmark, "category": "x", "turns": ["Why?"], **fields}


ITEMS = [
    *(item(n, "chat", turns=[f"Who jumps, {n}?", "Again.", "And again."]) for n in range(3)),
    *(
        item(n, "squad", turns=[f"What jumps, {n}?"], context=PASSAGES[: 1 + n % 3], meta={"title": title})
        for n, title in enumerate(["Foxes"] * 4 + ["Big_dogs"] * 3)
    ),
    item(9, "squad", context=["Nothing."], meta={"title": "Foxes", "answerable": False}),
    item(10, "alone"),
]


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in items), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "items.jsonl", ITEMS)


def test_conversations_of_every_kind(data: Path) -> None:
    material = load_material([data], limit=2)
    chat, alone, squad, *others = material.conversations
    assert [one.id for one in others] == ["chat-2", "squad-4"], "spread over the benchmark, benchmarks by turns"
    assert chat == Conversation("chat-0", "chat", (Message("Who jumps, 0?"), Message("Again."), Message("And again.")))
    assert squad.retrieval
    assert [one.text for one in squad.messages] == ["What jumps, 0?", "What jumps, 1?", "What jumps, 2?", EDIT]
    assert [one.edit for one in squad.messages] == [False, False, False, True]
    assert alone == Conversation("alone-10", "alone", (Message("Why?"), Message(EDIT_SENTENCE, edit=True)))
    assert material.articles == {"Foxes": "\n\n".join([*PASSAGES, "Nothing."]), "Big_dogs": "\n\n".join(PASSAGES)}
    assert load_material([data], limit=2).digest == material.digest
    assert load_material([data], limit=1).digest != material.digest


def test_items_of_too_much_text_are_left_out(data: Path) -> None:
    most = len("What jumps, 0?") + sum(map(len, PASSAGES[:2]))
    said = [message.text for one in load_material([data], max_chars=most).conversations for message in one.messages]
    assert "What jumps, 1?" in said
    assert "What jumps, 2?" not in said, "it comes with three passages"


def test_long_conversations_have_the_length_that_is_asked_for(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(1000))
    data = write(
        tmp_path / "items.jsonl", [item(1, "chat", turns=["a", "b"], context=None), item(2, "x", context=[words])]
    )
    material = load_material([data], long_tokens=ROOM + 400, count=lambda text: len(text.split()))
    long = [one for one in material.conversations if one.benchmark == LONG]
    texts = [one.messages[0].text.rpartition("\n\n")[0].split() for one in long]
    assert [len(text) for text in texts] == [400, 400]
    assert " ".join(texts[0] + texts[1]) == " ".join(words.split()[:800]), "each has a text of its own"
    assert all(one.max_tokens for one in long)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([item(1, "x", context=["Of no article."])], "need a meta.title"),
        ([item(1, "x", turns=[])], "line 1 has no turns"),
        ([item(1, "x", turns=["a", "b"])] * 2, "an id occurs twice"),
        ([{"turns": ["a"]}], "has no id"),
        ([item(1, "x", context="text")], "bad context"),
        ([item(1, "x", meta=["title"])], "bad meta"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, items: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        load_material([write(tmp_path / "items.jsonl", items)])


def turn(**changes: Any) -> Turn:
    values: dict[str, Any] = {
        "text": "yes",
        "ids": [1, 2, 3, 4, 5],
        "citations": [],
        "passages": [],
        "finish_reason": "stop",
        "prompt_tokens": 100,
        "cached_tokens": 0,
        "steps": 4,
        "drafted": 0,
        "accepted": 0,
        "first_token_ms": 100.0,
        "job_ms": 300.0,
        "seen_first_ms": 110.0,
        "seen_ms": 320.0,
        "prompt_ids": [],
    }
    return Turn(**{**values, **changes})


def measured(mode: str, *turns: Turn, id: str = "c1", benchmark: str = LONG) -> Measured:
    return Measured(id, benchmark, mode, list(turns))


def test_rows_sum_up_conversations_that_are_complete() -> None:
    second = turn(prompt_tokens=200, cached_tokens=90, steps=2, first_token_ms=20.0, job_ms=120.0)
    held = grouped(
        [measured(mode, turn(), second, id=name) for name in ("c1", "c2") for mode in MODES]
        + [measured("auto", turn(), turn(), id="c3")]
    )
    rows = session_rows(held, MODES)
    assert [(row["turn"], row["mode"]) for row in rows] == [(n, mode) for n in (1, 2) for mode in MODES]
    first, later = rows[0], rows[3]
    assert (first["conversations"], first["tokens"], first["steps"]) == (2, 10, 8)
    assert (first["mat"], later["mat"]) == (1.0, 2.0)
    assert (first["tokens_per_s"], later["tokens_per_s"]) == (20.0, 40.0)
    assert (first["reused_of_earlier"], later["reused_of_earlier"]) == (None, 0.9)
    assert later["first_token_ms"] == 20.0
    assert later["reused_tokens"] == 180


def test_follow_ups_are_held_against_cold_starts() -> None:
    warm, cold = turn(prompt_tokens=2000, first_token_ms=20.0), turn(prompt_tokens=2000, first_token_ms=80.0)
    other = turn(prompt_tokens=1999, first_token_ms=80.0)
    held = grouped(
        [
            *(measured("auto", turn(), warm, id=name) for name in ("c1", "c2")),
            measured("auto without reuse", turn(), cold),
            measured("auto without reuse", turn(), other, id="c2"),
            *(measured(mode, turn(), cold, id="c3", benchmark="chat") for mode in MODES),
        ]
    )
    found = follow_ups(held, *MODES[:2])
    assert found is not None
    assert (found["median_ratio"], found["worst_ratio"]) == (0.25, 0.25)
    (pair,) = found["pairs"]
    assert (pair["conversation"], pair["turn"], pair["prompt_tokens"]) == ("c1", 2, 2000)
    assert follow_ups({}, *MODES[:2]) is None


@pytest.mark.parametrize(
    ("change", "what", "index"),
    [
        ({"ids": [1, 2, 9, 4, 5]}, "ids", 2),
        ({"ids": [1, 2, 3]}, "ids", 3),
        ({"passages": ["c"], "ids": [9]}, "passages", None),
        ({"text": "no"}, "text", None),
        ({"citations": [{"kind": "copied"}]}, "citations", None),
        ({"finish_reason": "length"}, "finish_reason", None),
    ],
)
def test_differences_are_found_and_what_follows_is_not_compared(
    change: dict[str, Any], what: str, index: int | None
) -> None:
    held = grouped(
        [
            measured("plain", turn(), turn(), turn()),
            measured("auto", turn(), turn(**change), turn(ids=[7])),
            measured("auto without reuse", turn(), turn(), turn()),
        ]
    )
    (one,), compared = differences(held, MODES)
    assert (one["turn"], one["mode"], one["what"], one["index"]) == (2, "auto", what, index)
    last = 5 if index is None else index + 1
    assert compared == 15 + 5 + (1 if what == "passages" else last)
    assert not holds([one], compared), "the margin is not known"
    one["margin"] = 1e-4
    assert holds([one], compared) == (what == "ids")
    assert not holds([one, one], compared), "too many near-ties"
    assert not holds([{**one, "margin": 0.1}], compared)


def test_conversations_go_there_and_back() -> None:
    conversations = [Conversation(f"c{n}", "chat", ()) for n in range(2)]
    modes = modes_of("auto")
    assert [mode for _, _, mode in plan(conversations, modes)] == [*MODES, *MODES[::-1]]
    assert not modes["plain"].reuse, "it must not begin on the drafter's rows"


def test_the_file_goes_on_behind_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "out.conversations.jsonl"
    one = measured("auto", turn(prompt_ids=[5]))
    file = MeasuredFile(path, {"model": "m"})
    assert file.read() == []
    file.add(one)
    with path.open("a") as opened:
        opened.write('{"id": "cut o')
    assert MeasuredFile(path, {"model": "m"}).read() == [one]
    file.add(replace(one, mode="plain"))
    assert [kept.mode for kept in file.read()] == ["auto", "plain"]
    with pytest.raises(BenchError, match="other settings"):
        MeasuredFile(path, {"model": "n"}).read()


class RunningStack:
    """A stack that runs already, with scripted answers."""

    def __init__(self, url: str) -> None:
        self._client = RagClient(url)

    def __enter__(self) -> RunningStack:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def client(self, reuse: bool) -> RagClient:
        return self._client

    def prompt_ids(self, session_id: str, tokens: int) -> list[int]:
        return []


@pytest.mark.decoder_only("it tells of passes and drafts")
def test_a_run_with_scripted_answers(
    live_url: str, world: Any, data: Path, tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_MODEL", str(tiny_models / "tiny"))
    monkeypatch.setattr("rag_service.bench.run.Stack", lambda folder, settings, say: RunningStack(live_url))
    out = tmp_path / "out.json"
    sessions = set(world.place.client.keys("rag:default:session:*"))
    files = ["--json", str(out), "--markdown", str(tmp_path / "out.md"), "--plots", str(tmp_path)]
    arguments = ["--data", str(data), "--limit", "1", "--long", "0", "--max-tokens", "40", *files]
    result = CliRunner().invoke(app, ["bench", "sessions", *arguments])
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    rows = {(row["benchmark"], row["turn"], row["mode"]): row for row in found["rows"]}
    assert list(rows) == [
        (name, n, mode)
        for name, turns in (("chat", 3), ("alone", 2), ("squad", 4))
        for n in range(1, turns + 1)
        for mode in MODES
    ]
    assert all(row["conversations"] == 1 and row["tokens"] > 4 for row in rows.values())
    assert rows["squad", 1, "auto"]["mat"] > 1
    assert found["identical"]["differences"] == []
    assert found["identical"]["holds"]
    assert found["environment"]["command"].startswith("rag bench sessions --data")
    kept = [json.loads(line) for line in measured_path(out).read_text().splitlines()][1:]
    assert [(one["benchmark"], one["mode"]) for one in kept] == [
        *(("chat", mode) for mode in MODES),
        *(("alone", mode) for mode in MODES[::-1]),
        *(("squad", mode) for mode in MODES),
    ]
    assert all(turn["passages"] for one in kept if one["benchmark"] == "squad" for turn in one["turns"])
    assert kept[-1]["turns"][0]["citations"], "the scripted answer quotes the article"
    assert "## MAT by turn" in (tmp_path / "out.md").read_text()
    assert (tmp_path / "sessions.svg").read_text().count("chat")
    assert set(world.place.client.keys("rag:default:session:*")) == sessions
    asked = len(world.stage.prompts)
    assert asked == 3 * 9
    with_one_less = measured_path(out).read_text().splitlines(keepends=True)[:-1]
    measured_path(out).write_text("".join(with_one_less))
    assert main(arguments) == 0
    assert len(world.stage.prompts) == asked + 4, "only the conversation that was missing"
    world.stage.text = "Something else."
    measured_path(out).write_text("".join(with_one_less))
    assert main(arguments) == 1, "texts that differ are told"
    assert json.loads(out.read_text())["identical"]["differences"][0]["what"] == "ids"


def test_a_run_that_cannot_be(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_MODEL", str(tiny_models / "tiny"))
    assert main(["--data", str(tmp_path / "no.jsonl"), "--json", str(tmp_path / "o.json")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_markdown_says_what_was_missed() -> None:
    held = grouped([measured(mode, turn(), turn(prompt_tokens=2000)) for mode in MODES])
    found, compared = differences(held, MODES)
    result = {
        "environment": {"model": "m"},
        "rows": session_rows(held, MODES),
        "follow_ups": follow_ups(held, *MODES[:2]),
        "identical": {"conversations": 1, "tokens_compared": compared, "differences": found, "holds": False},
    }
    text = markdown(result)
    assert "median 1.000 of a cold start, at worst 1.000 (bar 0.25: missed)" in text
    assert "**this breaks the rule for float32.**" in text


def test_material_without_articles_has_a_digest() -> None:
    assert len(Material((), {}).digest) == 16


@pytest.mark.usefixtures("own_folder")
@pytest.mark.full
def test_a_run_on_a_stack_of_its_own(tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes: follow-ups begin on what was kept, and not where reuse is off."""
    for name, value in {
        "MODELS_DIR": tiny_models,
        "MODEL": tiny_models / "tiny",
        "EMBEDDING_MODEL": tiny_models / "tiny-embedder",
        "DTYPE": "float64",
        "DATA_DIR": tmp_path / "unused",
    }.items():
        monkeypatch.setenv(f"RAG_{name}", str(value))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    data = write(tmp_path / "items.jsonl", [item(1, "x", context=[" ".join(["The fox jumps over the dog."] * 60)])])
    out = tmp_path / "out.json"
    assert main(["--data", str(data), "--limit", "1", "--long", "400", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["identical"]["differences"] == []
    assert found["environment"]["model"] == "tiny"
    pairs = found["follow_ups"]["pairs"]
    assert [pair["turn"] for pair in pairs] == [2, 3]
    assert all(pair["prompt_tokens"] > 350 for pair in pairs)
    rows = {(row["turn"], row["mode"]): row for row in found["rows"]}
    assert all(rows[turn, "auto"]["reused_of_earlier"] >= 0.95 for turn in (2, 3))
    assert all(rows[turn, mode]["reused_tokens"] == 0 for turn in (1, 2, 3) for mode in MODES[1:])
    kept = [json.loads(line) for line in measured_path(out).read_text().splitlines()][1:]
    plain = next(one for one in kept if one["mode"] == "plain")
    assert [len(turn["prompt_ids"]) for turn in plain["turns"]] == [turn["prompt_tokens"] for turn in plain["turns"]]
    assert not (tmp_path / "unused").exists()
