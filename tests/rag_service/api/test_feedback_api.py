"""Feedback on answers: over HTTP for those who asked, at the command line for the operator."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from rag_service.contract.schemas import QueryRequest
from tests.support.command_line import rag
from workers.broker import keys

QUESTION: dict[str, Any] = {"question": "What jumps?", "collection": "animals"}


async def asked(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**QUESTION, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def path_of(answer: dict[str, Any]) -> str:
    return f"/v1/answers/{answer['answer_id']}/feedback"


async def test_feedback_is_given_changed_read_and_withdrawn(client: httpx.AsyncClient) -> None:
    answer = await asked(client)
    path = path_of(answer)
    assert (await client.get(path)).json()["code"] == "unknown_feedback"
    given = await client.post(path, json={"rating": "down", "comment": "  Too short.\n"})
    assert given.status_code == 200, given.text
    assert given.json()["answer_id"] == answer["answer_id"]
    assert (given.json()["rating"], given.json()["comment"]) == ("down", "Too short.")
    assert (await client.get(path)).json() == given.json()
    changed = (await client.post(path, json={"rating": "up"})).json()
    assert (changed["rating"], changed["comment"]) == ("up", "")
    (turn,) = (await client.get(f"/v1/sessions/{answer['session_id']}")).json()["turns"]
    assert turn["feedback"] == changed
    assert (await client.delete(path)).status_code == 204
    assert (await client.delete(path)).json()["code"] == "unknown_feedback"
    (turn,) = (await client.get(f"/v1/sessions/{answer['session_id']}")).json()["turns"]
    assert turn["feedback"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rating": "good"},
        {"rating": 1},
        {"rating": "up", "comment": None},
        {"rating": "up", "comment": "x" * 4001},
        {"rating": "up", "score": 3},
        {"rating": "up", "comment": "\ud800"},
        [],
    ],
)
async def test_what_is_no_feedback_is_refused_and_changes_nothing(client: httpx.AsyncClient, body: Any) -> None:
    path = path_of(await asked(client))
    first = (await client.post(path, json={"rating": "up", "comment": "Good."})).json()
    refused = await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert refused.status_code == 422, refused.text
    assert (await client.get(path)).json() == first


async def test_there_is_none_on_unknown_and_on_unfinished_answers(client: httpx.AsyncClient, world: Any) -> None:
    unknown = await client.post(f"/v1/answers/{'0' * 32}/feedback", json={"rating": "up"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_answer")
    world.stage.hold_at = 7
    running = await client.pipeline.answer(QueryRequest(**QUESTION))  # type: ignore[attr-defined]
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    early = await client.post(f"/v1/answers/{running}/feedback", json={"rating": "up"})
    assert (early.status_code, early.json()["code"]) == (409, "answer_running")
    assert int(early.headers["retry-after"]) > 0
    world.stage.open.set()
    assert (await client.pipeline.answers.finished(running)).finish_reason == "stop"  # type: ignore[attr-defined]
    assert (await client.post(f"/v1/answers/{running}/feedback", json={"rating": "up"})).status_code == 200


async def test_the_operator_reads_all_of_it(client: httpx.AsyncClient, world: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", world.redis_url)
    client.pipeline.redis.delete(keys.FEEDBACK)  # type: ignore[attr-defined]
    nothing = await asyncio.to_thread(rag, "feedback", "--days", "7")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "There is no feedback of the last 7 days. `rag rate ID up|down` gives some" in nothing.stderr
    first, second = await asked(client), await asked(client, question="And what is lazy?")
    await client.post(path_of(first), json={"rating": "down", "comment": "[bold]No[/bold] source.\nWhy?"})
    await client.post(path_of(second), json={"rating": "up"})
    listed = json.loads((await asyncio.to_thread(rag, "feedback", "--json")).stdout)
    assert [(one["answer_id"], one["rating"]) for one in listed] == [
        (second["answer_id"], "up"),
        (first["answer_id"], "down"),
    ]
    assert (listed[1]["question"], listed[1]["answer"]) == (QUESTION["question"], first["answer"])
    assert listed[1]["passages"][0]["document_id"] == first["passages"][0]["document_id"]
    assert (listed[1]["tenant"], listed[1]["person"]) == ("default", "")
    text = (await asyncio.to_thread(rag, "feedback", "--rating", "down")).stdout
    assert "[bold]No[/bold] source. Why?" in text
    assert second["answer_id"] not in text
    assert json.loads((await asyncio.to_thread(rag, "feedback", "--limit", "1", "--json")).stdout) == listed[:1]
    nobody = await asyncio.to_thread(rag, "feedback", "--tenant", "nobody")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert "There is no such feedback." in nobody.stderr
    assert (await asyncio.to_thread(rag, "feedback", "--tenant", "a b")).exit_code == 2


@pytest.mark.parametrize("everything", [False, True])
async def test_it_is_erased_with_its_session(client: httpx.AsyncClient, everything: bool) -> None:
    redis = client.pipeline.redis  # type: ignore[attr-defined]
    answer = await asked(client)
    await client.post(path_of(answer), json={"rating": "down", "comment": "A word to find: wombat."})
    name = keys.feedback("default", answer["answer_id"])
    assert "wombat" in redis.get(name)
    assert redis.zscore(keys.FEEDBACK, keys.feedback_member("default", answer["answer_id"])) is not None
    if everything:
        assert (await client.delete("/v1/sessions?all=true")).status_code == 200
    else:
        assert (await client.delete(f"/v1/sessions/{answer['session_id']}")).status_code == 204
    assert redis.get(name) is None
    assert redis.zscore(keys.FEEDBACK, keys.feedback_member("default", answer["answer_id"])) is None


async def test_it_outlives_the_answers_record_and_expires_with_the_sessions(client: httpx.AsyncClient) -> None:
    redis = client.pipeline.redis  # type: ignore[attr-defined]
    answer = await asked(client)
    given = (await client.post(path_of(answer), json={"rating": "up"})).json()
    assert abs(redis.ttl(keys.feedback("default", answer["answer_id"])) - 2592000) < 60
    redis.delete(keys.answer("default", answer["answer_id"]))
    assert (await client.get(path_of(answer))).json() == given
    late = await client.post(path_of(answer), json={"rating": "down"})
    assert (late.status_code, late.json()["code"]) == (404, "unknown_answer")
    assert (await client.get(path_of(answer))).json() == given
