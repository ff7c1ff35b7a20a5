"""Clients that go away while an answer or an edit is streamed: it runs on, is taken up, and the session goes on."""

from __future__ import annotations

from typing import Any

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
