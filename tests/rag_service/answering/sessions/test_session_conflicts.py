"""Two requests on one session at once: the second waits or is refused, and the session stays whole."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import httpx
import pytest

from rag_service.contract.schemas import EditRequest, QueryRequest
from workers.errors import ClaimLost
from workers.sessions.sessions import Sessions

QUESTION = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


@pytest.fixture
async def running(client: httpx.AsyncClient, world: Any) -> tuple[Any, str]:
    """(pipeline, id) of an answer in the session `busy` that waits for `world.stage.open`."""
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    pipeline.sessions.erase("default", "busy")
    answer_id = await pipeline.answer(QueryRequest(**QUESTION, session_id="busy"))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    return pipeline, answer_id


async def looked(pipeline: Any, times: int, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once sessions were asked for their next turn so many times more."""
    event, claim, loop, count = asyncio.Event(), pipeline.sessions.claim, asyncio.get_running_loop(), 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count >= times:
            loop.call_soon_threadsafe(event.set)
        return claim(*args, **options)

    monkeypatch.setattr(pipeline.sessions, "claim", counted)
    return event


async def test_the_second_waits_for_the_first(
    client: httpx.AsyncClient, world: Any, running: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, first = running
    waiting = await looked(pipeline, 3, monkeypatch)
    body = {**QUESTION, "question": "When?", "session_id": "busy"}
    second = asyncio.create_task(client.post("/v1/query", json=body))
    await asyncio.wait_for(waiting.wait(), 30)
    assert not second.done()
    assert (await pipeline.answers.record(first))["status"] == "running"
    world.stage.open.set()
    answer = (await second).json()
    assert answer["turn"] == 2, answer
    turns = pipeline.sessions.turns("default", "busy")
    assert [turn.answer_id for turn in turns] == [first, answer["answer_id"]]
    before, after = world.stage.prompts[-2:]
    assert after[: len(before)] == before, "the second prompt holds the first turn"


async def test_reject_refuses_at_once(client: httpx.AsyncClient, world: Any, running: tuple[Any, str]) -> None:
    pipeline, first = running
    response = await client.post("/v1/query", json={**QUESTION, "session_id": "busy", "on_conflict": "reject"})
    problem = response.json()
    assert (response.status_code, problem["code"], problem["answer_id"]) == (409, "session_busy", first)
    assert int(response.headers["retry-after"]) > 0
    elsewhere = asyncio.create_task(client.post("/v1/query", json={**QUESTION, "on_conflict": "reject"}))
    world.stage.open.set()
    assert (await elsewhere).status_code == 200, "other sessions are not busy"
    assert (await pipeline.answers.finished(first)).status == "succeeded"
    again = await client.post("/v1/query", json={**QUESTION, "session_id": "busy", "on_conflict": "reject"})
    assert again.json()["turn"] == 2


async def test_a_session_whose_id_was_made_up_is_busy_too(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    session_id = (await pipeline.answers.record(answer_id))["session_id"]
    response = await client.post("/v1/query", json={**QUESTION, "session_id": session_id, "on_conflict": "reject"})
    assert response.json()["code"] == "session_busy"


async def test_waiting_ends_at_the_request_limit(make_client: Any, world: Any, running: tuple[Any, str]) -> None:
    async with make_client(world.redis_url, world.data_dir, answers={"timeout": 0.1}) as client:
        response = await client.post("/v1/query", json={**QUESTION, "session_id": "busy"})
    assert (response.status_code, response.json()["code"]) == (409, "session_busy")
    assert "still" in response.json()["detail"]
    assert int(response.headers["retry-after"]) > 0


async def test_edits_take_turns_as_well(client: httpx.AsyncClient, world: Any) -> None:
    first = (await client.post("/v1/query", json=QUESTION)).json()
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    path = f"/v1/answers/{first['answer_id']}/edits"
    running = await pipeline.edit(first["answer_id"], EditRequest(instruction="Shorter."))
    refused = await client.post(path, json={"instruction": "Longer.", "on_conflict": "reject"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
    waiting = asyncio.create_task(client.post(path, json={"instruction": "Longer."}))
    world.stage.open.set()
    second = (await waiting).json()
    assert (second["version"], second["turn"]) == (3, 3)
    assert [turn.answer_id for turn in pipeline.sessions.turns("default", first["session_id"])] == [
        first["answer_id"],
        running,
        second["answer_id"],
    ]


async def test_a_crowd_on_one_session_leaves_it_whole(client: httpx.AsyncClient, world: Any) -> None:
    fields = {**QUESTION, "session_id": "crowd", "retrieval": {"mode": "none"}}
    bodies = [{**fields, "question": f"Number {n}?"} for n in range(6)]
    responses = await asyncio.gather(*(client.post("/v1/query", json=body) for body in bodies))
    answers = [response.json() for response in responses]
    assert sorted(answer["turn"] for answer in answers) == [1, 2, 3, 4, 5, 6]
    turns = client.pipeline.sessions.turns("default", "crowd")  # type: ignore[attr-defined]
    by_turn = sorted(answers, key=lambda answer: answer["turn"])
    assert [turn.answer_id for turn in turns] == [answer["answer_id"] for answer in by_turn]
    prompts = world.stage.prompts[-6:]
    for before, after in itertools.pairwise(prompts):
        assert after[: len(before)] == before


@pytest.mark.decoder_only("its engine is made to fail; failing model servers have tests of their own")
async def test_a_failed_answer_frees_its_session(client: httpx.AsyncClient, world: Any) -> None:
    body = {**QUESTION, "session_id": "fails"}
    world.stage.text = None  # which the scripted engine cannot say
    failed = await client.post("/v1/query", json=body)
    assert failed.json()["status"] == "failed", failed.text
    world.stage.text = "Yes."
    after = await client.post("/v1/query", json={**body, "on_conflict": "reject"})
    assert after.json()["turn"] == 1


async def test_a_refused_request_frees_its_session(client: httpx.AsyncClient, world: Any) -> None:
    body = {**QUESTION, "session_id": "refused"}
    refused = await client.post("/v1/query", json={**body, "max_tokens": 30000})
    assert refused.json()["code"] == "context_overflow"
    assert (await client.post("/v1/query", json={**body, "on_conflict": "reject"})).status_code == 200


async def test_a_claim_lapses_when_its_claimer_dies(client: httpx.AsyncClient, world: Any) -> None:
    sessions: Sessions = client.pipeline.sessions  # type: ignore[attr-defined]
    redis = client.pipeline.redis  # type: ignore[attr-defined]
    key = "rag:default:session:lapsing:claim"
    assert sessions.claim("default", "lapsing", "dead") is None
    assert 0 < redis.ttl(key) <= 60
    assert sessions.claim("default", "lapsing", "other") == "dead"
    body = {**QUESTION, "session_id": "lapsing"}
    assert (await client.post("/v1/query", json={**body, "on_conflict": "reject"})).status_code == 409
    redis.expire(key, 0)  # what time does
    assert (await client.post("/v1/query", json={**body, "on_conflict": "reject"})).status_code == 200
    assert not redis.exists(key)


async def test_a_claim_that_lapsed_while_the_prompt_was_built_is_renewed(
    client: httpx.AsyncClient, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = client.pipeline  # type: ignore[attr-defined]
    redis, enqueue, lapses = pipeline.redis, pipeline.queue.enqueue_generate, [1]

    def lapsing(job: Any, **options: Any) -> None:
        if lapses and lapses.pop():
            redis.delete("rag:default:session:slow:claim")
        enqueue(job, **options)

    monkeypatch.setattr(pipeline.queue, "enqueue_generate", lapsing)
    body = {**QUESTION, "session_id": "slow", "on_conflict": "reject"}
    assert (await client.post("/v1/query", json=body)).json()["turn"] == 1
    lapses += [1, 1, 1]
    refused = await client.post("/v1/query", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")


async def test_an_answer_erased_while_its_edit_waits_is_not_edited(
    client: httpx.AsyncClient, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await client.post("/v1/query", json=QUESTION)).json()
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    await pipeline.edit(first["answer_id"], EditRequest(instruction="Shorter."))
    waiting = await looked(pipeline, 2, monkeypatch)
    path = f"/v1/answers/{first['answer_id']}/edits"
    second = asyncio.create_task(client.post(path, json={"instruction": "Longer."}))
    await asyncio.wait_for(waiting.wait(), 30)
    assert (await client.delete(f"/v1/sessions/{first['session_id']}")).status_code == 204
    response = await second
    assert (response.status_code, response.json()["code"]) == (404, "unknown_answer")
    assert not pipeline.redis.keys(f"rag:default:session:{first['session_id']}*")


async def test_an_answer_that_lost_its_turn_stays_out_of_the_session(
    client: httpx.AsyncClient, world: Any, running: tuple[Any, str]
) -> None:
    pipeline, first = running
    redis = pipeline.redis
    redis.expire("rag:default:session:busy:claim", 0)
    assert pipeline.sessions.claim("default", "busy", "another") is None
    world.stage.open.set()
    assert (await pipeline.answers.finished(first)).status == "succeeded"
    assert pipeline.sessions.turns("default", "busy") == []
    assert redis.get("rag:default:session:busy:claim") == "another", "only who has it may give it back"
    job = (await pipeline.answers.record(first))["job"].model_copy(update={"answer_id": "late"})
    with pytest.raises(ClaimLost):
        pipeline.queue.enqueue_generate(job, claimed=True)
    assert not redis.exists("rag:default:answer:late")


async def test_erasing_a_session_frees_it(client: httpx.AsyncClient, world: Any, running: tuple[Any, str]) -> None:
    assert (await client.delete("/v1/sessions/busy")).status_code == 204
    world.stage.open.set()
    again = await client.post("/v1/query", json={**QUESTION, "session_id": "busy", "on_conflict": "reject"})
    assert again.json()["turn"] == 1
