"""Greetings and thanks: nothing is searched for, nothing is warned of, and the conversation goes on around them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

FIRST = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, "question": question, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize(
    ("message", "language"), [("Hello!", "English"), ("Danke", "German"), ("Dank je wel, dat helpt", "Dutch")]
)
async def test_nothing_is_searched_for_and_nothing_is_warned_of(
    client: httpx.AsyncClient, world: Any, message: str, language: str
) -> None:
    answer = await ask(client, message)
    assert (answer["passages"], answer["retrieval_query"], answer["support"]) == ([], None, None)
    assert (answer["note"], answer["abstained"]) == (None, None)
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert f"Reply to the user in {language}" in prompt
    assert "fox" not in prompt


async def test_thanks_in_a_conversation_are_in_its_language(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client, "Worüber springt der schnelle braune Fuchs?")
    world.stage.text = "Zebras rarely sing."
    thanks = await ask(client, "Ok, super", session_id=first["session_id"])
    assert (thanks["answer"], thanks["note"], thanks["support"]) == ("Zebras rarely sing.", None, None)
    assert world.stage.rewrites == []
    assert "Reply to the user in German" in world.tokens.decode(world.stage.prompts[-1])


async def test_a_follow_up_is_about_the_question_before_them(client: httpx.AsyncClient) -> None:
    first = await ask(client, "What does the fox in Lisbon jump over?")
    await ask(client, "Thanks!", session_id=first["session_id"])
    again = await ask(client, "And in Porto?", session_id=first["session_id"])
    assert again["retrieval_query"] == "What does the fox in Porto jump over?"


async def test_in_a_history_that_the_client_sends(client: httpx.AsyncClient) -> None:
    said = [("user", FIRST["question"]), ("assistant", "The lazy dog."), ("user", "Thank you!")]
    messages = [{"role": role, "content": text} for role, text in said]
    body = {"model": "rag:animals", "messages": messages}
    (choice,) = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    assert choice["message"]["retrieval_query"] is None
    assert choice["message"]["passages"] == []


async def test_thanks_with_a_question_are_one(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "Thanks, and what does the dog do?")
    assert answer["retrieval_query"] == "Thanks, and what does the dog do?"
    assert answer["passages"] != []
