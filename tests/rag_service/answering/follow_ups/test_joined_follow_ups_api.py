"""Follow-ups that the model cannot rewrite: those that say little are searched for with the question before."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.answering.answers import DOUBTFUL, UNSUPPORTED

FIRST = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


async def ask(client: httpx.AsyncClient, question: str = "And when?", **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, "question": question, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture
async def session(client: httpx.AsyncClient) -> str:
    """A session with one turn."""
    return str((await ask(client, FIRST["question"]))["session_id"])


@pytest.mark.parametrize("said", ["", "Bananas ripen beside apples in a bowl.", f"When? {'The fox jumps. ' * 30}"])
async def test_a_rewrite_of_no_use_is_not_used(client: httpx.AsyncClient, world: Any, session: str, said: str) -> None:
    world.stage.rewritten = said
    answer = await ask(client, session_id=session)
    assert answer["retrieval_query"] == f"{FIRST['question']} And when?", "which says too little alone"
    assert answer["timings"]["rewrite"] > 0
    assert len(world.stage.rewrites) == 1
    more = await ask(client, "And for how long?", session_id=session)
    assert more["retrieval_query"] == f"{FIRST['question']} And when? And for how long?"
    last = await ask(client, "And then?", session_id=session)
    assert last["retrieval_query"] == f"{FIRST['question']} And for how long? And then?"


@pytest.mark.parametrize("said", ["", "Where does that hungry fox live?"])
async def test_a_question_that_says_enough_is_looked_for_as_it_was_typed(
    client: httpx.AsyncClient, world: Any, session: str, said: str
) -> None:
    world.stage.rewritten = said
    asked = "Where does that hungry fox live?"
    assert (await ask(client, asked, session_id=session))["retrieval_query"] == asked


async def test_one_behind_a_doubtful_answer_has_its_warning(client: httpx.AsyncClient, world: Any) -> None:
    found, world.stage.text = world.stage.text, "Zebras rarely sing."
    first = await ask(client, str(FIRST["question"]))
    assert first["note"] == UNSUPPORTED
    world.stage.text, world.stage.rewritten = found, ""
    assert (await ask(client, session_id=first["session_id"]))["note"] == DOUBTFUL
