"""The language of follow-ups: that of what they mean, or of their conversation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.rag_service.answering.follow_ups.test_follow_ups_api import FIRST, ask


@pytest.fixture
async def session(client: httpx.AsyncClient) -> str:
    """A session with one turn."""
    return str((await ask(client, FIRST["question"]))["session_id"])


async def test_the_language_is_that_of_the_rewritten_question(
    client: httpx.AsyncClient, world: Any, session: str
) -> None:
    """`And in Berlin?` alone is taken for German, and was answered in German."""
    world.stage.rewritten = "What does the fox jump over in Berlin?"
    await ask(client, "And in Berlin?", session_id=session)
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert world.stage.rewritten in prompt
    assert "German" not in prompt


async def test_a_few_words_are_of_their_conversations_language(
    client: httpx.AsyncClient, world: Any, session: str
) -> None:
    """ "And in Hamburg?" alone is taken for German, and was answered in it."""
    world.stage.rewritten = "no rewrite of use"
    await ask(client, "And in Hamburg?", session_id=session)
    new = world.tokens.decode(world.stage.prompts[-1]).rpartition("And in Hamburg?")[2]
    assert new
    assert "Answer in German" not in new
