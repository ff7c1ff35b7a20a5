"""Messages that only say how the last answer is to be written: nothing is searched for, and the answer is quoted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.answering.answers import DOUBTFUL, UNCHANGED, UNSUPPORTED
from rag_service.prompting.template import Templates

FOUND = "The quick fox jumps over the lazy dog."
FIRST = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, "question": question, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("message", ["Make that shorter.", "Kürzer bitte!", "Kun je het korter maken?"])
async def test_the_last_answer_is_quoted_and_nothing_is_searched_for(
    client: httpx.AsyncClient, world: Any, message: str
) -> None:
    first = await ask(client, FIRST["question"])
    again = await ask(client, message, session_id=first["session_id"])
    prompt = world.tokens.decode(world.stage.prompts[-1])
    _, _, shown = prompt.rpartition(FIRST["question"])
    assert shown.count(first["answer"]) == 2, "as the turn before, and as what is to be changed"
    assert shown.rindex(first["answer"]) < shown.index(message)
    assert again["retrieval_query"] is None
    assert world.stage.rewrites == []
    assert [one["chunk_id"] for one in again["passages"]] == [one["chunk_id"] for one in first["passages"]]
    assert (again["answer"], again["note"], again["support"]) == (first["answer"], UNCHANGED, None)
    turns = (await client.get(f"/v1/sessions/{first['session_id']}")).json()["turns"]
    assert [(turn["question"], turn["base"]) for turn in turns] == [(FIRST["question"], None), (message, None)]


async def test_what_was_asked_for_is_not_warned_of(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client, FIRST["question"])
    world.stage.text = "Zebras rarely sing."
    again = await ask(client, "Shorter, please.", session_id=first["session_id"])
    assert (again["answer"], again["note"]) == ("Zebras rarely sing.", None)


@pytest.mark.parametrize("way", ["message", "edit"])
async def test_the_warning_of_an_answer_goes_on_to_what_is_made_of_it(
    client: httpx.AsyncClient, world: Any, way: str
) -> None:
    """In German, a wrong answer that was warned of looked right."""
    world.stage.text = "Zebras rarely sing."
    first = await ask(client, FIRST["question"])
    assert first["note"] == UNSUPPORTED
    answer = first
    unchanged = f"{UNCHANGED} {DOUBTFUL}"
    for text, note in (
        ("Zebras rarely sing.", unchanged), ("Zebras singen selten.", DOUBTFUL), ("Sie singen selten.", DOUBTFUL)
    ):  # fmt: skip
        world.stage.text = text
        if way == "message":
            answer = await ask(client, "In German, please.", session_id=first["session_id"])
        else:
            body = {"instruction": "In German, please."}
            answer = (await client.post(f"/v1/answers/{answer['answer_id']}/edits", json=body)).json()
        assert (answer["answer"], answer["note"]) == (text, note)


@pytest.mark.parametrize(("meant", "note"), [("Does a zebra jump?", DOUBTFUL), ("Does the fox jump?", None)])
async def test_a_follow_up_about_what_a_doubtful_answer_said_has_its_warning(
    client: httpx.AsyncClient, world: Any, meant: str, note: str | None
) -> None:
    """A wrong answer that was warned of named a course, and its date looked right."""
    world.stage.text = "Zebras rarely sing."
    first = await ask(client, FIRST["question"])
    assert first["note"] == UNSUPPORTED
    world.stage.text, world.stage.rewritten = FOUND, meant
    answer = await ask(client, "Does it?", session_id=first["session_id"])
    assert (answer["retrieval_query"], answer["note"]) == (meant, note)


async def test_in_a_history_that_the_client_sends_its_passages_are_found_again(
    client: httpx.AsyncClient, world: Any
) -> None:
    said = [("user", FIRST["question"]), ("assistant", "The lazy dog."), ("user", "Shorter, please.")]
    messages = [{"role": role, "content": text} for role, text in said]
    body = {"model": "rag:animals", "messages": messages}
    (choice,) = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    assert choice["message"]["retrieval_query"] == FIRST["question"]
    assert world.stage.rewrites == []
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert prompt.index("The lazy dog.") < prompt.index("Shorter, please."), "the model reads the user's words"


async def test_without_an_answer_before_it_such_a_message_is_a_question(client: httpx.AsyncClient) -> None:
    alone = await ask(client, "Make that shorter.")
    assert alone["retrieval_query"] == "Make that shorter."


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("Shorter, please.", True),
        ("Please rewrite your answer as a bulleted list", True),
        ("can you put that in one short sentence?", True),
        ("Translate it into German.", True),
        ("Fasse das bitte in zwei Sätzen zusammen", True),
        ("Maak het wat korter", True),
        ("Hazlo más corto, por favor", True),
        ("请简短一点", True),
        ("Answer in German please", True),
        ("Antworte auf Englisch", True),
        ("In German please", True),
        ("Tell me that in one sentence", True),
        ("Vat dat samen", True),
        ("In zwei Sätzen bitte", True),
        ("Auf Deutsch, bitte.", True),
        ("In het Nederlands graag", True),
        ("Make that a friendly e-mail in English.", True),
        ("Write that as a list.", True),
        ("Mach daraus eine E-Mail an das Team", True),
        ("Maak er een tabel van", True),
        ("als lijst graag", True),
        ("As a list, please", True),
        ("Bitte als Tabelle", True),
        ("como lista, por favor", True),
        ("Is there a list?", False),
        ("Gibt es eine Liste der Mitglieder?", False),
        ("Tradúcelo para mi jefe", True),
        ("Make an appointment for Monday", False),
        ("How do I make it?", False),
        ("List them.", False),
        ("Shorter hours?", False),
        ("And in German?", False),
        ("Und auf Deutsch?", False),
        ("German suppliers", False),
        ("How short is it?", False),
        ("Make a list of all suppliers", False),
        ("Summarise the travel policy", False),
        ("Again?", False),
        ("Bitte", False),
        ("", False),
        ("shorter " * 13, False),
    ],
)
def test_a_message_of_these_words_alone_is_about_the_last_answer(message: str, is_one: bool) -> None:
    assert Templates().is_revision(message) is is_one


async def test_thanks_are_not_what_is_revised(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client, FIRST["question"])
    world.stage.text = "You are welcome."
    thanked = await ask(client, "Thanks!", session_id=first["session_id"])
    world.stage.text = "Shorter."
    again = await ask(client, "Make that shorter.", session_id=first["session_id"])
    _, _, shown = world.tokens.decode(world.stage.prompts[-1]).rpartition(thanked["answer"])
    assert first["answer"] in shown
    assert [one["chunk_id"] for one in again["passages"]] == [one["chunk_id"] for one in first["passages"]]


async def test_a_follow_up_behind_a_revision_is_about_the_question_before_it(
    client: httpx.AsyncClient, world: Any
) -> None:
    first = await ask(client, "What does the Brunnel 400 weigh?")
    await ask(client, "Make that shorter.", session_id=first["session_id"])
    then = await ask(client, "And the Tarvo 350?", session_id=first["session_id"])
    assert then["retrieval_query"] == "What does the Tarvo 350 weigh?"


@pytest.mark.parametrize(
    "message", ["Are you sure?", "Bist du sicher?", "Weet je het zeker?", "¿Estás seguro?", "真的吗？"]
)
async def test_who_doubts_an_answer_asks_its_question_again(
    client: httpx.AsyncClient, world: Any, message: str
) -> None:
    first = await ask(client, FIRST["question"])
    again = await ask(client, message, session_id=first["session_id"])
    assert again["retrieval_query"] == FIRST["question"]
    assert [one["chunk_id"] for one in again["passages"]] == [one["chunk_id"] for one in first["passages"]]
    assert world.stage.rewrites == []
    _, _, shown = world.tokens.decode(world.stage.prompts[-1]).rpartition(first["answer"])
    assert FIRST["question"] in shown
    assert message not in shown


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("are you really sure", True),
        ("Is that right?", True),
        ("Really?", True),
        ("Stimmt das?", True),
        ("Ist das auch wirklich richtig?", True),
        ("Echt?", True),
        ("Klopt dat?", True),
        ("¿Es verdad?", True),
        ("你确定吗", True),
        ("That is right.", False),
        ("Is the pool really open?", False),
        ("Who is sure?", False),
        ("What is right?", False),
        ("Is that allowed?", False),
        ("Correct it.", False),
        ("Is that so?", False),
        ("", False),
    ],
)
def test_a_message_of_these_words_alone_doubts_the_last_answer(message: str, is_one: bool) -> None:
    assert Templates().is_doubt(message) is is_one
