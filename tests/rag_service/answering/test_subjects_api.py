"""Which subject a question of a conversation gets: names that need no model, and what the documents bear out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

FIRST: dict[str, Any] = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, "question": question, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture
async def session(client: httpx.AsyncClient) -> str:
    """A session with one turn."""
    return str((await ask(client, FIRST["question"]))["session_id"])


async def test_a_question_without_a_name_may_be_about_what_was_asked_before(
    client: httpx.AsyncClient, world: Any, session: str
) -> None:
    world.stage.rewritten = "How often does anybody run in the morning with the fox?"
    answer = await ask(client, "How often does anybody run in the morning?", session_id=session)
    assert answer["retrieval_query"] == world.stage.rewritten
    world.stage.rewrites.clear()
    await ask(client, "Which documents mention foxes?", session_id=session)
    assert world.stage.rewrites == [], "it asks for a list of all documents"


async def test_what_no_paragraph_bears_out_is_not_added(client: httpx.AsyncClient, world: Any, session: str) -> None:
    question = "How many visitors walk each year?"
    world.stage.rewritten = "How many visitors walk each year with the fox?"
    answer = await ask(client, question, session_id=session)
    assert answer["retrieval_query"] == question
    assert len(world.stage.rewrites) == 1
    assert world.stage.rewritten not in world.tokens.decode(world.stage.prompts[-1])
    world.stage.rewritten = "How many visitors walk each year over the bridge?"
    assert (await ask(client, question, session_id=session))["retrieval_query"] == world.stage.rewritten


async def test_names_are_put_in_without_the_model(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client, "How many foxes fit in the Basalt room?")
    second = await ask(client, "And in the Quartz room?", session_id=first["session_id"])
    third = await ask(client, "Is the first one larger than the second?", session_id=first["session_id"])
    meant = ["How many foxes fit in the Quartz room?", "Is Basalt larger than Quartz?"]
    assert [second["retrieval_query"], third["retrieval_query"]] == meant
    assert world.stage.rewrites == []
