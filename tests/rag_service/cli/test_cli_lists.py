"""`rag collections`, `docs`, `jobs` and `sessions`: lists, one of them, and what ends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rag_service.cli import app
from rag_service.cli.stack.doctor import _exactness, _worker_memory
from rag_service.client import RagClient

Rag = Callable[..., Result]


@pytest.fixture
def rag(live_url: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rag]:
    """The command line against a live service with the collection `shelf`, which holds `kiwi` and `a/plum`."""
    monkeypatch.setenv("RAG_URL", live_url)
    texts: Any = [{"id": name, "title": name.title(), "text": f"About {name}."} for name in ("kiwi", "a plum")]
    with RagClient(live_url) as client:
        client.ingest("shelf", texts=texts)
        yield lambda *arguments: CliRunner().invoke(app, list(arguments))
        if "shelf" in {collection.name for collection in client.collections()}:
            client.delete_collection("shelf")


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_documents_are_listed_shown_and_deleted(rag: Rag) -> None:
    listed = rag("docs", "list", "-c", "shelf").stdout.splitlines()
    assert [line.split("  ")[0] for line in listed] == ["a plum", "kiwi"]
    assert listed[0].endswith("1 chunk  13 bytes  A Plum")
    found = told(rag("docs", "list", "-c", "shelf", "--json"))
    assert [document["document_id"] for document in found["documents"]] == ["a plum", "kiwi"]
    assert rag("docs", "show", "a plum", "-c", "shelf").stdout == "About a plum.\n"
    assert told(rag("docs", "show", "kiwi", "-c", "shelf", "--json"))["text"] == "About kiwi."
    for wrong, meant in (("plum", "a plum"), ("KIWI", "kiwi"), ("A Plum", "a plum")):
        missing = rag("docs", "show", wrong, "-c", "shelf")
        assert missing.exit_code == 1
        assert f"Did you mean {meant}?" in missing.stderr
    assert "Did you mean" not in rag("docs", "show", "fig", "-c", "shelf").stderr
    assert rag("docs", "delete", "a plum", "-c", "shelf").stdout == "Deleted a plum.\n"
    gone = rag("docs", "delete", "kiwi", "a plum", "-c", "shelf")
    assert (gone.exit_code, gone.stdout) == (1, "Deleted kiwi.\n")
    assert "no document 'a plum'; `rag docs list -c NAME` lists those there are" in gone.stderr
    empty = rag("docs", "list", "-c", "shelf")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no documents" in empty.stderr


def test_documents_are_listed_with_the_date_that_decides_between_versions(rag: Rag, tmp_path: Path) -> None:
    dates = {"a": "2025-03-01", "b": "1.3.2024", "c": "soon", "d": None}
    for name, date in dates.items():
        (tmp_path / f"{name}.md").write_text(f"---\ndate: {date}\n---\n# About {name}\n\nText." if date else "Text.")
    told(rag("ingest", *(f"{name}.md" for name in dates), "-c", "shelf", "--json"))
    lines = [line for line in rag("docs", "list", "-c", "shelf").stdout.splitlines() if ".md" in line]
    assert ["dated 2025-03-01" in lines[0], "dated 2024-03-01" in lines[1]] == [True, True]
    assert all("dated" not in line for line in lines[2:])


def test_a_list_longer_than_a_page_is_whole(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_service.cli.commands.documents.docs.PAGE", 1)
    assert len(told(rag("docs", "list", "-c", "shelf", "--json"))["documents"]) == 2
    assert len(told(rag("docs", "list", "-c", "shelf", "--limit", "1", "--json"))["documents"]) == 1


def test_collections_are_listed_and_deleted(rag: Rag) -> None:
    (line,) = [line for line in rag("collections", "list").stdout.splitlines() if line.startswith("shelf ")]
    assert line == "shelf  2 documents  2 chunks  24 bytes"
    assert "shelf" in [one["name"] for one in told(rag("collections", "list", "--json"))["collections"]]
    assert rag("collections", "delete", "shelf").stdout == "Deleted shelf.\n"
    again = rag("collections", "delete", "shelf")
    assert again.exit_code == 1
    missing = "no collection 'shelf'; `rag collections list` lists those there are.\n"
    assert missing in again.stderr
    for shown in (("list",), ("show", "kiwi"), ("delete", "kiwi")):
        assert missing in rag("docs", *shown, "-c", "shelf").stderr, "nobody makes one to look at it"
    for asked in (("ask",), ("search",)):
        assert "`rag ingest PATH… -c NAME` makes one, `rag coll" in rag(*asked, "What?", "-c", "shelf").stderr


def test_a_collection_is_renamed(rag: Rag) -> None:
    renamed = rag("collections", "rename", "shelf", "board")
    assert renamed.exit_code == 0, renamed.output
    assert renamed.stdout.startswith("Renamed shelf to board. Keys limited to shelf, ")
    assert [one["title"] for one in told(rag("docs", "list", "-c", "board", "--json"))["documents"]] == [
        "A Plum", "Kiwi",
    ]  # fmt: skip
    again = rag("collections", "rename", "shelf", "board")
    assert again.exit_code == 1
    assert "no collection 'shelf'" in again.stderr
    taken = rag("collections", "rename", "board", "animals")
    assert taken.exit_code == 1
    assert "collection 'animals' exists already" in taken.stderr
    wrong = rag("collections", "rename", "board", "a b")
    assert wrong.exit_code == 2
    assert "'a b' is not a collection name" in wrong.stderr
    back = told(rag("collections", "rename", "board", "shelf", "--json"))
    assert (back["name"], back["documents"]) == ("shelf", 2)


def test_an_ingest_that_nobody_waits_for_is_listed_and_waited_for(rag: Rag, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Figs\n\nFigs are sweet.")
    (tmp_path / "bad.xyz").write_bytes(b"?")
    sent = rag("ingest", "good.md", "bad.xyz", "-c", "shelf", "--no-wait")
    assert sent.exit_code == 0
    (job,) = sent.stdout.split()
    waited = rag("jobs", "wait", job)
    assert waited.exit_code == 1
    assert waited.stdout == "succeeded: 1 of 2 documents in, 1 could not be read  shelf\n"
    assert waited.stderr.startswith(f"{tmp_path.name}/bad.xyz: ")
    newest = rag("jobs", "list", "--limit", "1").stdout
    assert newest.startswith(job)
    assert newest.endswith("1 could not be read  shelf\n")
    listed = told(rag("jobs", "list", "--json"))["jobs"]
    assert [one["created"] for one in listed] == sorted((one["created"] for one in listed), reverse=True)
    assert {"job_id": job, "collection": "shelf", "status": "succeeded"}.items() <= listed[0].items()
    assert told(rag("jobs", "show", job, "--json"))["failures"][0]["name"] == f"{tmp_path.name}/bad.xyz"
    assert rag("jobs", "show", job).stdout == waited.stdout
    assert rag("jobs", "cancel", job).stdout == "The job had already ended.\n"
    missing = rag("jobs", "wait", "nothing")
    assert missing.exit_code == 1
    assert "There is no job 'nothing'" in missing.stderr


def test_the_ids_of_jobs_come_with_an_ingest(rag: Rag, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Figs\n\nFigs are sweet.")
    done = told(rag("ingest", "good.md", "-c", "shelf", "--json"))
    assert told(rag("jobs", "show", *done["jobs"], "--json"))["status"] == "succeeded"


def test_a_session_is_erased(rag: Rag) -> None:
    session = told(rag("ask", "Who jumps?", "-c", "animals", "--json"))["session_id"]
    assert rag("sessions", "erase", session).stdout == f"Erased {session}.\n"
    assert rag("sessions", "erase", session).exit_code == 1


def test_an_answer_is_rated(rag: Rag) -> None:
    answer = told(rag("ask", "Who jumps?", "-c", "animals", "--json"))["answer_id"]
    assert rag("rate", answer, "up").stdout == f"Rated {answer} up.\n"
    said = told(rag("rate", answer, "down", "--comment", "Too long.", "--json"))
    assert (said["rating"], said["comment"]) == ("down", "Too long.")
    for gone in (rag("rate", "0" * 32, "up"), rag("edit", "nosuch", "Shorter.")):
        assert gone.exit_code == 1
        assert "never existed. `rag sessions show ID --json` lists the answers of a session." in gone.stderr
    assert rag("rate", answer, "fine").exit_code == 2


def test_the_list_says_that_there_are_more(rag: Rag) -> None:
    for _ in range(2):
        told(rag("ask", "Who jumps?", "-c", "animals", "--json"))
    short = rag("sessions", "list", "--limit", "1")
    assert (len(short.stdout.splitlines()), "These are the latest 1;" in short.stderr) == (1, True)
    assert len(told(rag("sessions", "list", "--limit", "1", "--json"))["sessions"]) == 1
    assert "These are" not in rag("sessions", "list", "--limit", "1000").stderr


def test_the_list_shows_that_a_question_was_cut(rag: Rag) -> None:
    question = "Who jumps over the lazy dog, and does the dog notice it at all?"
    told(rag("ask", question, "-c", "animals", "--json"))
    latest = rag("sessions", "list", "--limit", "1").stdout.strip()
    assert latest.endswith("  Who jumps over the lazy dog, and does the dog notice it at…")


def test_all_sessions_are_erased(rag: Rag) -> None:
    for _ in range(2):
        told(rag("ask", "Who jumps?", "-c", "animals", "--json"))
    assert rag("sessions", "erase").exit_code == rag("sessions", "erase", "any", "--all").exit_code == 2
    assert rag("sessions", "erase", "--all").exit_code == 1, "nobody said yes"
    assert len(told(rag("sessions", "list", "--json"))["sessions"]) >= 2
    assert rag("sessions", "erase", "--all", "--yes").stdout.startswith("Erased everything: ")
    assert told(rag("sessions", "erase", "--all", "--yes", "--json")) == {"sessions": 0}
    assert told(rag("sessions", "list", "--json"))["sessions"] == []


def test_doctor_tells_what_workers_take(monkeypatch: pytest.MonkeyPatch, world: Any) -> None:
    from workers.sessions.queue import Queue

    info = {"name": "w", "memory": {"eagle_head": 5_000_000}, "kv_cache": {"bytes": 2_000_000}}
    monkeypatch.setattr(Queue, "workers", lambda self: [info, {"name": "idle", "memory": {}}])
    (finding,) = _worker_memory(world.redis_url)
    assert finding.ok
    assert finding.found == "w: eagle head 5.0 MB, keys and values of earlier turns 2.0 MB"


def test_doctor_tells_whether_drafts_are_bitwise(monkeypatch: pytest.MonkeyPatch, world: Any) -> None:
    from workers.sessions.queue import Queue

    infos = [{"name": "a", "exact": "bitwise"}, {"name": "b", "exact": "default"}, {"name": "upstream"}]
    monkeypatch.setattr(Queue, "workers", lambda self: infos)
    found = [finding.found for finding in _exactness(world.redis_url)]
    assert [text.split(", ")[-1] for text in found] == ["bit by bit", "up to rounding (docs/explanation.md)"]
