"""Clients that go away while an answer or an edit is streamed: it runs on, is taken up, and the session goes on."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import httpx
import pytest

from rag_service.client import Done, Passages, RagClient, Token


@pytest.mark.parametrize("edit", [False, True], ids=["answer", "edit"])
def test_a_client_goes_away_in_the_middle(live_url: str, world: Any, edit: bool) -> None:
    with RagClient(live_url) as rag:
        first = rag.query("What jumps?", collection="animals")
        text = world.stage.text = f"{first.answer} Then it rests and sleeps until noon."
        world.stage.hold_at = 9
        with RagClient(live_url) as leaving:
            events = (
                leaving.stream_edit(first.answer_id, "Say that it rests.")
                if edit
                else leaving.stream("And then?", session_id=first.session_id, retrieval={"rewrite": False})
            )
            begun, *seen = next(events), next(events)
            events.close()
        assert isinstance(begun, Passages)
        assert world.stage.waiting.wait(30)
        assert rag.answer(begun.answer_id).status == "running"
        world.stage.open.set()
        seen += rag.resume(begun.answer_id, seen[-1].id)
        assert isinstance(seen[-1], Done)
        assert "".join(event.text for event in seen if isinstance(event, Token)) == text, "nothing lost, nothing twice"
        assert seen[-1].answer.answer == text
        assert seen[-1].answer.base == (first.answer_id if edit else None)
        world.stage.hold_at = None
        last = rag.edit(begun.answer_id, "Shorter.") if edit else rag.query("When?", session_id=first.session_id)
        turns = rag.session(first.session_id).turns
    assert [turn.answer_id for turn in turns] == [first.answer_id, begun.answer_id, last.answer_id]
    if edit:
        with RagClient(live_url) as rag:
            versions = rag.versions(first.answer_id)
        assert [version.answer_id for version in versions] == [first.answer_id, begun.answer_id, last.answer_id]


@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        pytest.param("/v1/completions", marks=pytest.mark.decoder_only("a model server for chats continues no text")),
    ],
)
def test_a_call_of_openai_ends_with_its_client(live_url: str, world: Any, path: str, choices: int) -> None:
    """A client that waits for a whole response and goes away stops all its choices: nobody could read them."""
    world.stage.hold_at = 3
    asked = {"messages": [{"role": "user", "content": "What jumps?"}]} if "chat" in path else {"prompt": "What jumps?"}
    body = json.dumps({"model": "default", "n": choices, "max_tokens": 40, **asked}).encode()
    client = world.place.client
    before = set(client.scan_iter("rag:*:answer:*"))
    address = httpx.URL(live_url)
    with socket.create_connection((address.host, address.port)) as connection:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert world.stage.waiting.wait(30)
        while (
            len(asked_for := [key for key in client.scan_iter("rag:default:answer:*") if _new(key, before)]) < choices
        ):
            time.sleep(0.01)
    while not all(client.exists(f"{key}:cancel") or client.hget(key, "result") for key in asked_for):
        time.sleep(0.01)
    for seen in list(world.place.cancels._watched):
        assert seen.wait(30)
    world.stage.open.set()
    while not all(client.hget(key, "result") for key in asked_for):
        time.sleep(0.01)
    results = [json.loads(client.hget(key, "result")) for key in asked_for]
    assert [result["finish_reason"] for result in results] == ["cancelled"] * choices


def _new(key: str, before: set[str]) -> bool:
    return key not in before and key.count(":") == 3
