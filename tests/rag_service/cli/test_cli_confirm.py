"""What cannot be undone is asked on a terminal; scripts are not held up."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_service.access.api_keys import ApiKeys
from rag_service.cli import confirm
from rag_service.client import RagClient
from tests.support.command_line import rag
from workers.broker.app import make_redis

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def shelf(live_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RagClient]:
    """A client of a live service with the collection `shelf`, which holds `kiwi` and `plum`."""
    monkeypatch.setenv("RAG_URL", live_url)
    with RagClient(live_url) as client:
        client.ingest("shelf", texts=[{"id": name, "text": f"About {name}."} for name in ("kiwi", "plum")])
        yield client
        if "shelf" in names(client):
            client.delete_collection("shelf")


def names(client: RagClient) -> set[str]:
    return {collection.name for collection in client.collections()}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there, whose answers are those that `rag` is given."""
    monkeypatch.setattr(confirm, "at_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_a_collection_stays_unless_somebody_says_yes(shelf: RagClient, answer: str) -> None:
    kept = rag("collections", "delete", "shelf", said=answer)
    assert kept.exit_code == 1
    assert "Delete the collection 'shelf' with 2 documents? [y/N]:" in kept.stderr
    assert "Aborted" in kept.stderr
    assert "Deleted" not in kept.stdout
    assert "shelf" in names(shelf)


@pytest.mark.usefixtures("terminal")
def test_a_collection_goes_with_a_yes(shelf: RagClient) -> None:
    assert rag("collections", "delete", "shelf", said="y\n").stdout.endswith("Deleted shelf.\n")
    assert "shelf" not in names(shelf)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("option", ["--yes", "-y"])
def test_yes_is_an_option(shelf: RagClient, option: str) -> None:
    gone = rag("collections", "delete", "shelf", option)
    assert (gone.stdout, gone.stderr) == ("Deleted shelf.\n", "")


@pytest.mark.usefixtures("terminal")
def test_documents_are_asked_for_once(shelf: RagClient) -> None:
    one = rag("docs", "delete", "kiwi", "-c", "shelf", said="n\n")
    assert "Delete the document 'kiwi' of the collection 'shelf'? [y/N]:" in one.stderr
    two = rag("docs", "delete", "kiwi", "plum", "-c", "shelf", said="n\n")
    assert "Delete these 2 documents of the collection 'shelf'? [y/N]:" in two.stderr
    assert shelf.collection("shelf").documents == 2
    assert rag("docs", "delete", "kiwi", "plum", "-c", "shelf", said="y\n").exit_code == 0
    assert shelf.collection("shelf").documents == 0


@pytest.mark.usefixtures("terminal")
def test_a_session_and_all_sessions_are_asked_for(shelf: RagClient) -> None:
    session = shelf.query("What is kiwi?", collection="shelf").session_id
    one = rag("sessions", "erase", session, said="n\n")
    assert f"Erase the session '{session}' with all its answers? [y/N]:" in one.stderr
    assert rag("sessions", "erase", "--all", said="n\n").exit_code == one.exit_code == 1
    assert shelf.session(session).turns
    assert rag("sessions", "erase", session, "-y").stdout == f"Erased {session}.\n"


def test_what_names_nothing_needs_a_yes_where_nobody_is() -> None:
    for said in (None, ""):
        nobody = rag("sessions", "erase", "--all", said=said)
        assert nobody.exit_code == 1
        assert (nobody.stdout, nobody.stderr) == (
            "",
            "Error: Nobody said yes, so nothing was done; --yes does not ask.\n",
        )


@pytest.mark.usefixtures("terminal")
def test_questions_leave_nothing_on_standard_output(shelf: RagClient) -> None:
    kept = rag("docs", "delete", "kiwi", "-c", "shelf", "--json", said="n\n")
    assert (kept.exit_code, kept.stdout) == (1, "")
    gone = rag("docs", "delete", "kiwi", "-c", "shelf", "--json", said="y\n")
    assert json.loads(gone.stdout) == {"collection": "shelf", "deleted": ["kiwi"]}
    assert gone.stdout.startswith("{")


@pytest.mark.parametrize(
    "command",
    [
        ("edit", "", "Shorter."),
        ("rate", "", "up"),
        ("docs", "delete", "", "-c", "shelf"),
        ("docs", "delete", "kiwi", " ", "-c", "shelf"),
        ("docs", "delete", "kiwi", "-c", ""),
        ("docs", "show", "", "-c", "shelf"),
        ("sessions", "erase", ""),
        ("sessions", "show", ""),
        ("sessions", "export", ""),
        ("jobs", "wait", ""),
        ("keys", "revoke", ""),
        ("collections", "delete", ""),
        ("collections", "rename", "", "new"),
        ("collections", "rename", "shelf", ""),
        ("collections", "reindex", ""),
    ],
)
def test_an_empty_id_is_a_wrong_argument(shelf: RagClient, command: tuple[str, ...]) -> None:
    result = rag(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "it is empty; say which one is meant" in " ".join(result.stderr.split())
    assert shelf.collection("shelf").documents == 2


@pytest.mark.usefixtures("terminal")
def test_a_key_is_asked_for(redis_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", redis_server)
    client = make_redis(redis_server)
    keys = ApiKeys(client)
    created, key = keys.prepared("page", "default")
    keys.add(created, key)
    kept = rag("keys", "revoke", created.id, said="n\n")
    assert f"Revoke the key {created.id} ('page' of tenant 'default')? [y/N]:" in kept.stderr
    assert keys.get(created.id) is not None
    assert rag("keys", "revoke", created.id, said="y\n").exit_code == 0
    assert keys.get(created.id) is None
    client.close()


def test_a_terminal_is_told_from_a_script(shelf: RagClient, live_url: str, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "rag_service.cli", "collections", "delete", "shelf")
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    typed = subprocess.run(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=False)
    assert typed.returncode == 1
    assert "shelf" in names(shelf), "somebody was asked, and said no"
    with (tmp_path / "log").open("wb") as log:  # a question there would be seen by nobody
        logged = subprocess.run(command, stdin=theirs, stdout=log, stderr=log, timeout=120, check=False)
    os.close(theirs)
    os.close(ours)
    assert logged.returncode == 0
    assert "shelf" not in names(shelf)
