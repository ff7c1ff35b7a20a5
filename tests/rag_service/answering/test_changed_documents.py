"""A document is replaced or deleted in the middle of a conversation: later answers do not rest on what it said."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from rag_service.cli import app
from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

QUESTION = "What is the badger fee?"
OLD, NEW = "The badger fee is 10 euros.", "The badger fee is 25 euros."


@pytest.fixture
def badgers(world: Any) -> Any:
    """Stores the text of a document; None deletes it."""
    with contextlib.closing(Library(world.data_dir, HashEmbedder())) as library:
        collection = library.create("badgers")

        def put(text: str | None, document_id: str = "fees") -> None:
            if text is None:
                collection.delete(document_id)
            else:
                collection.ingest([SourceDocument(document_id=document_id, title="Fees", text=text)])

        put(OLD)
        put("Owls wear hats.", "owls")
        yield put
        library.delete("badgers")


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    body = {"question": question, "seed": 7, "collection": "badgers", "retrieval": {"rewrite": False}, **changes}
    response = await client.post("/v1/query", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def changed(answer: dict[str, Any]) -> dict[str, bool]:
    return {passage["text"]: passage["changed"] for passage in answer["passages"]}


async def test_a_follow_up_reads_the_new_text_and_not_the_old_answer(
    client: httpx.AsyncClient, world: Any, badgers: Any
) -> None:
    first = await ask(client, QUESTION)
    assert changed(first)[OLD] is False
    badgers(NEW)
    second = await ask(client, "And the badger fee now?", session_id=first["session_id"])
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert NEW in prompt
    assert OLD not in prompt
    assert QUESTION not in prompt, "nor the turn that rests on it"
    assert (second["turn"], second["turns_outdated"], second["turns_left"]) == (2, 1, 0)
    third = await ask(client, "And the owls?", session_id=first["session_id"])
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert "And the badger fee now?" in prompt, "what was answered since is still there"
    assert OLD not in prompt
    assert (third["turn"], third["turns_outdated"]) == (3, 1)
    assert prompt.count(NEW) == 1
    session = (await client.get(f"/v1/sessions/{first['session_id']}")).json()
    assert [turn["answer_id"] for turn in session["turns"]] == [one["answer_id"] for one in (first, second, third)]


async def test_answers_and_sessions_mark_the_passages_that_have_changed(
    client: httpx.AsyncClient, badgers: Any
) -> None:
    first = await ask(client, QUESTION)
    address = f"/v1/answers/{first['answer_id']}"
    for text, outdated in ((NEW, True), (f"Preface.\n\n{OLD}", False), (None, True)):
        badgers(text)
        answer = (await client.get(address)).json()
        assert changed(answer)[OLD] is outdated
        assert changed(answer)["Owls wear hats."] is False
        (turn,) = (await client.get(f"/v1/sessions/{first['session_id']}")).json()["turns"]
        assert changed(turn) == changed(answer)


async def test_thanks_rest_on_no_passage(client: httpx.AsyncClient, world: Any, badgers: Any) -> None:
    first = await ask(client, QUESTION)
    await ask(client, "Thanks, that helps!", session_id=first["session_id"])
    badgers(NEW)
    then = await ask(client, "And the badger fee now?", session_id=first["session_id"])
    assert then["turns_outdated"] == 1
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert "Thanks, that helps!" in prompt
    assert OLD not in prompt


def test_the_command_line_says_that_it_answered_without_them(badgers: Any, world: Any, live_url: str) -> None:
    world.stage.text = OLD
    with httpx.Client(base_url=live_url) as client:
        body = {"question": QUESTION, "collection": "badgers"}
        session = client.post("/v1/query", json=body, timeout=60).raise_for_status().json()["session_id"]
    badgers(NEW)
    arguments = ["ask", "And now the fee?", "-c", "badgers", "--session", session, "--url", live_url]
    asked = CliRunner().invoke(app, arguments)
    assert asked.exit_code == 0, asked.output
    shown = CliRunner().invoke(app, ["sessions", "show", session, "--url", live_url]).output
    assert shown.count("A source of this answer was changed or deleted since") == 1
    exported = CliRunner().invoke(app, ["sessions", "export", session, "--url", live_url]).output
    assert exported.count("fees · changed or deleted since") == 1
    assert "since documents have changed: 1 earlier answer." in " ".join(asked.output.split())
