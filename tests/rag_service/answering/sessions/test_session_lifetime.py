"""How long sessions last, and what leaves them: windows that are full, times to live, and erasing, on a real server."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rag_service.prompting.retrieved import Retrieved
from workers.broker import keys

FIRST = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}
CROWD = " ".join(f"word{number}" for number in range(24))


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_an_answer_says_that_passages_left_the_window(
    client: httpx.AsyncClient, world: Any, parse: Callable[[str], Any]
) -> None:
    world.stage.text = "Fact."
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    passages = [
        {
            "document_id": f"d{number}",
            "chunk_id": f"d{number}:0",
            "title": f"Title {number}",
            "text": f"Fact {number}. {CROWD} {CROWD[:70]}",
            "source_start": 0,
            "source_end": 9,
            "score": 1.0,
            "rank": 1,
        }
        for number in range(5)
    ]

    async def find(*args: Any) -> Retrieved:
        return Retrieved("Which fact?", [passages[len(answers)]])

    pipeline.retrieval.find = find
    answers: list[dict[str, Any]] = []
    events: list[Any] = []
    session = ""
    for _ in passages:
        body = {**FIRST, "question": "Which fact?", "max_tokens": 16, "stream": True}
        response = await client.post("/v1/query", json=body | ({"session_id": session} if session else {}))
        events = parse(response.text)
        answers.append(events[-1][2])
        session = answers[-1]["session_id"]
        assert events[0][2]["passages_left"] == answers[-1]["passages_left"]
    left = [answer["passages_left"] for answer in answers]
    assert left[:2] == [0, 0]
    assert 0 < sum(left) < 5
    for before, after in itertools.pairwise(answers):
        kept = [passage["chunk_id"] for passage in after["passages"] if passage["in_prompt"]]
        assert len(kept) == 1 + len(before["passages"]) - after["passages_left"]
        memory = (await client.get(f"/v1/sessions/{session}")).json()["memory"]
    assert memory["epoch"] == 1 + sum(map(bool, left)), "a turn that lost passages begins the tokens anew, once"
    jobs = [(await pipeline.answers.record(answer["answer_id"]))["job"] for answer in answers]
    for before, after, gone in zip(jobs, jobs[1:], left[1:], strict=False):
        assert (after.segments[: len(before.segments)] == before.segments) is (gone == 0)


async def test_a_session_goes_on_when_its_turns_alone_fill_the_window(
    client: httpx.AsyncClient, world: Any, parse: Callable[[str], Any]
) -> None:
    world.stage.text = "Fact."
    body = {"question": f"Which? {CROWD}", "retrieval": {"mode": "none"}, "max_tokens": 16, "seed": 7}
    answers = [await ask(client, **body)]
    session = answers[0]["session_id"]
    while not answers[-1]["turns_left"]:
        assert len(answers) < 50
        answers.append(await ask(client, **body, session_id=session))
    response = await client.post("/v1/query", json={**body, "session_id": session, "stream": True})
    events = parse(response.text)
    assert events[0][2]["turns_left"] == events[-1][2]["turns_left"] == 0, "room was made for turns to come"
    assert len((await client.get(f"/v1/sessions/{session}")).json()["turns"]) == len(answers) + 1
    response = await client.post(f"/v1/answers/{answers[0]['answer_id']}/edits", json={"instruction": "Shorten it."})
    assert response.status_code == 200, response.text


async def test_sessions_and_answers_expire(world: Any, make_client: Callable[..., Any]) -> None:
    ttl = {"ttl": 100, "session_ttl": 200}
    async with make_client(world.redis_url, world.data_dir, answers=ttl) as client:
        redis = client.pipeline.redis
        place = world.place
        place.answer_ttl_s, place.session_ttl_s = 100, 200
        try:
            answer = await ask(client)
            await ask(client, session_id=answer["session_id"], question="And when?")
        finally:
            place.answer_ttl_s, place.session_ttl_s = type(place).answer_ttl_s, type(place).session_ttl_s
        session = answer["session_id"]
        kept = [name for name in redis.keys("rag:*") if session in name or answer["answer_id"] in name]
        assert len(kept) == 8
        for name in kept:
            assert 0 < redis.ttl(name) <= (100 if answer["answer_id"] in name else 200), name
        redis.expire(keys.answer("default", answer["answer_id"]), 0)  # what time does
        assert (await client.get(f"/v1/answers/{answer['answer_id']}")).status_code == 404
        shown = (await client.get(f"/v1/sessions/{session}")).json()
        assert [turn["answer"] for turn in shown["turns"]] == [world.stage.text] * 2, "turns outlive their answers"
        assert (await ask(client, session_id=session, question="And why?"))["turn"] == 3
        for name in [name for name in redis.keys("rag:*") if f":session:{session}" in name]:
            redis.expire(name, 0)
        assert (await client.get(f"/v1/sessions/{session}")).json()["code"] == "unknown_session"
        assert (await ask(client, session_id=session))["turn"] == 1, "its id begins a new one"


async def test_erasing_leaves_nothing_of_a_session(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.rewritten = "When does the fox jump over the dog?"
    redis: Any = client.pipeline.redis  # type: ignore[attr-defined]
    kept = await ask(client)
    counted = (":sessions", ":usage:")
    before = {name: redis.dump(name) for name in redis.keys("rag:default:*") if not any(one in name for one in counted)}
    first = await ask(client)
    session = first["session_id"]
    second = await ask(client, session_id=session, question="And when?")
    edit = await client.post(f"/v1/answers/{first['answer_id']}/edits", json={"instruction": "Shorter."})
    assert edit.status_code == 200
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    after = {name: redis.dump(name) for name in redis.keys("rag:default:*") if not any(one in name for one in counted)}
    assert after == before, "what is kept of other sessions is what it was"
    for gone in (f"/v1/sessions/{session}", *(f"/v1/answers/{one['answer_id']}" for one in (first, second))):
        assert (await client.get(gone)).status_code == 404
    assert (await client.get(f"/v1/answers/{kept['answer_id']}")).status_code == 200
    listed = (await client.get("/v1/sessions", params={"limit": 1000})).json()["sessions"]
    assert session not in [one["session_id"] for one in listed]
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 404
