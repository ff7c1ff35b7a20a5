"""An answer with a warning is not in later prompts, or a model repeats it; what is about that answer still reads it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.answering.answers import UNSUPPORTED

WRONG = "Zebras rarely sing."
QUESTION = "What does the fox jump over?"


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    body = {"question": question, "collection": "animals", "seed": 7, "retrieval": {"rewrite": False}, **changes}
    response = await client.post("/v1/query", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_question_that_stands_alone_is_asked_without_a_doubtful_answer(
    client: httpx.AsyncClient, world: Any
) -> None:
    right = await ask(client, "Who is the quick fox?")
    session = {"session_id": right["session_id"]}
    world.stage.text = WRONG
    assert (await ask(client, QUESTION, **session))["note"] == UNSUPPORTED
    world.stage.text = "The quick fox jumps over the lazy dog."
    third = await ask(client, "Which dog does Rex call lazy?", **session)
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert WRONG not in prompt
    assert QUESTION not in prompt
    assert "Who is the quick fox?" in prompt, "a turn without a warning stays"
    assert (third["turn"], third["turns_unsupported"], third["turns_outdated"]) == (3, 1, 0)
    read = (await client.get(f"/v1/answers/{third['answer_id']}")).json()
    assert read["turns_unsupported"] == 1
    turns = (await client.get(f"/v1/sessions/{right['session_id']}")).json()["turns"]
    assert [turn["answer"] for turn in turns][1] == WRONG, "it is still listed"


@pytest.mark.parametrize(
    "message",
    [
        "Shorter, please.",
        "And the lazy dog?",
        "Which of them is lazy?",
        "Compare that with what you said before about the fox.",
    ],
)
async def test_what_is_about_the_answer_reads_it(client: httpx.AsyncClient, world: Any, message: str) -> None:
    world.stage.text = WRONG
    first = await ask(client, QUESTION)
    again = await ask(client, message, session_id=first["session_id"])
    assert WRONG in world.tokens.decode(world.stage.prompts[-1])
    assert again["turns_unsupported"] == 0


@pytest.mark.parametrize(
    ("question", "left_out"),
    [
        ("Repeat your answer about the Fox of Room 4.", 0),
        ("Is 12 euros right for the Fox?", 0),
        ("What did you say of Rex before?", 0),
        ("Which dog does Rex call lazy?", 1),
    ],
)
async def test_a_question_about_what_was_said_reads_it(
    client: httpx.AsyncClient, world: Any, question: str, left_out: int
) -> None:
    world.stage.text = "Zebras rarely sing for 12 euros."
    first = await ask(client, QUESTION)
    assert first["note"] == UNSUPPORTED
    again = await ask(client, question, session_id=first["session_id"])
    assert again["turns_unsupported"] == left_out
    assert ("Zebras" in world.tokens.decode(world.stage.prompts[-1])) == (not left_out)
