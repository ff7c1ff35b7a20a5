"""Queries over HTTP: the answer, its events, resuming, cancelling, sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from rag_service.contract.schemas import QueryRequest
from workers.broker.messages import TokenEvent, WaitingEvent
from workers.sessions.streams import AnswerStream

QUESTION = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**QUESTION, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def document_text(client: httpx.AsyncClient, document_id: str) -> str:
    text: str = (await client.get(f"/v1/collections/animals/documents/{document_id}")).json()["text"]
    return text


async def test_an_answer_comes_with_citations_that_select_equal_text(client: httpx.AsyncClient, world: Any) -> None:
    answer = await ask(client)
    assert answer["answer"] == world.stage.text
    assert answer["finish_reason"] == "stop"
    assert answer["status"] == "succeeded"
    assert answer["seed"] == 7
    assert answer["turn"] == 1
    assert answer["grounded"] is True
    assert answer["note"] is None
    counts = {"mat", "steps", "drafted", "accepted", "by_source", "plain_equivalent_steps", "ms"}
    assert (counts if world.engine == "decoder" else {"upstream", "model", "usage"}) <= set(answer["speculation"])
    copied = [c for c in answer["citations"] if c["kind"] == "copied"]
    assert len(copied) == 1
    text = await document_text(client, copied[0]["document_id"])
    here = answer["answer"][copied[0]["answer_start"] : copied[0]["answer_end"]]
    assert here == text[copied[0]["source_start"] : copied[0]["source_end"]] == world.stage.text
    for passage in answer["passages"]:
        assert passage["text"] == text[passage["source_start"] : passage["source_end"]]
    assert (await client.get(f"/v1/answers/{answer['answer_id']}")).json() == answer


async def test_offsets_are_code_points(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "😀😀 Yes: walk 東京 visitors 😀 and many naïve café owners each decade."
    answer = await ask(client, question="Who walks over the bridge of Köln?")
    text = await document_text(client, "foxes")
    (copied,) = [c for c in answer["citations"] if c["kind"] == "copied"]
    here = answer["answer"][copied["answer_start"] : copied["answer_end"]]
    assert here == text[copied["source_start"] : copied["source_end"]]
    assert here.startswith("walk 東京 visitors 😀")


async def test_a_stream_carries_the_same_answer(client: httpx.AsyncClient, world: Any, parse: Any) -> None:
    response = await client.post("/v1/query", json={**QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    events = parse(response.text)
    names = [name for _, name, _ in events]
    assert names[0] == "passages"
    assert names[-1] == "done"
    assert set(names[1:-1]) == {"token"}
    done = events[-1][2]
    assert "".join(data["text"] for _, name, data in events if name == "token") == done["answer"]
    drafted = any("source" in data for _, name, data in events if name == "token")
    assert drafted == (world.engine == "decoder")
    assert events[0][2]["passages"] == done["passages"]
    plain = await ask(client)
    for same in ("answer", "citations", "passages", "finish_reason", "usage"):
        assert plain[same] == done[same]


async def test_a_stream_resumes_after_any_event(client: httpx.AsyncClient, parse: Any) -> None:
    response = await client.post("/v1/query", json={**QUESTION, "stream": True})
    events = parse(response.text)
    url = f"/v1/answers/{events[0][2]['answer_id']}/events"
    assert parse((await client.get(url)).text) == events
    for seen in range(len(events) - 1):
        rest = await client.get(url, headers={"Last-Event-ID": events[seen][0]})
        assert parse(rest.text) == events[seen + 1 :]
    assert (await client.get(url, headers={"Last-Event-ID": events[-1][0]})).status_code == 204
    refused = await client.get(url, headers={"Last-Event-ID": "yesterday"})
    assert refused.status_code == 422
    assert "Last-Event-ID" in refused.json()["detail"]


async def test_a_silent_stream_has_heartbeats_and_goes_on(make_client: Any, world: Any, parse: Any) -> None:
    from rag_service.api import sse

    world.stage.hold_at = 4
    async with make_client(world.redis_url, world.data_dir, answers={"heartbeat": 0.01}) as client:
        pipeline = client.pipeline
        answer_id = await pipeline.answer(QueryRequest(**QUESTION))
        job = (await pipeline.answers.record(answer_id))["job"]
        text = ""
        async for part in sse.events(pipeline, job, "0-0"):
            text += part
            if part == sse.HEARTBEAT:
                world.stage.open.set()
        assert sse.HEARTBEAT in text
        assert parse(text)[-1][1] == "done"


async def test_a_stream_says_how_many_answers_come_first(client: httpx.AsyncClient, world: Any, parse: Any) -> None:
    world.stage.hold_at = 0
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    stream = pipeline.answers.stream(answer_id)
    for answers in (2, 0):
        await asyncio.to_thread(stream.write, WaitingEvent(answers=answers))
    world.stage.open.set()
    events = parse((await client.get(f"/v1/answers/{answer_id}/events")).text)
    assert [data for _, name, data in events if name == "waiting"] == [{"answers": 2}, {"answers": 0}]
    assert (events[0][1], events[-1][1]) == ("passages", "done")


async def test_a_cancelled_answer_keeps_its_text(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.hold_at = 7
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    running = (await client.get(f"/v1/answers/{answer_id}")).json()
    assert running["status"] == "running"
    assert running["answer"] is None
    assert (await client.delete(f"/v1/answers/{answer_id}")).json() == {"cancelled": True}
    await asyncio.to_thread(world.wait_for_cancel)
    world.stage.open.set()
    answer = (await pipeline.answers.finished(answer_id)).model_dump()
    assert answer["finish_reason"] == "cancelled"
    assert answer["status"] == "cancelled"
    assert world.stage.text.startswith(answer["answer"])
    assert 0 < len(answer["answer"]) < len(world.stage.text)
    assert (await client.delete(f"/v1/answers/{answer_id}")).json() == {"cancelled": False}


async def test_a_reader_that_goes_away_does_not_stop_the_answer(client: httpx.AsyncClient, world: Any) -> None:
    from rag_service.api import sse

    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    reader = sse.events(pipeline, (await pipeline.answers.record(answer_id))["job"], "0-0")
    assert "event: passages" in await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    world.stage.open.set()
    assert (await pipeline.answers.finished(answer_id)).answer == world.stage.text


async def test_a_follow_up_prompt_begins_with_all_that_came_before(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client, session_id="talk-1")
    world.stage.text = "Every morning."
    second = await ask(client, session_id="talk-1", question="When?", collection=None)
    assert second["turn"] == 2
    assert second["collection"] == "animals"
    before, after = world.stage.prompts[-2:]
    answered = before + world.tokens.encode_content(first["answer"]).ids
    assert after[: len(answered)] == answered
    text = world.tokens.decode(after)
    assert text.count("[Foxes") == len(first["passages"])
    session = (await client.get("/v1/sessions/talk-1")).json()
    assert [turn["question"] for turn in session["turns"]] == [QUESTION["question"], "When?"]
    assert [turn["answer"] for turn in session["turns"]] == [first["answer"], "Every morning."]
    assert "talk-1" in [s["session_id"] for s in (await client.get("/v1/sessions")).json()["sessions"]]
    assert (await client.delete("/v1/sessions/talk-1")).status_code == 204
    assert (await client.get("/v1/sessions/talk-1")).status_code == 404
    assert (await client.get(f"/v1/answers/{first['answer_id']}")).json()["code"] == "unknown_answer"


async def test_a_follow_up_cites_passages_of_earlier_turns(client: httpx.AsyncClient, world: Any) -> None:
    await ask(client, session_id="talk-2")
    answer = await ask(client, session_id="talk-2", question="Sure?", retrieval={"mode": "none"})
    assert [p["earlier"] for p in answer["passages"]] == [True] * len(answer["passages"])
    assert [c["kind"] for c in answer["citations"]] == ["copied"]


@pytest.mark.decoder_only("it tells of passes and drafts")
async def test_citations_do_not_depend_on_speculation(client: httpx.AsyncClient) -> None:
    answers = [
        await ask(client, speculation=how) for how in ("off", "auto", "pld", {"drafter": "casd", "max_nodes": 4})
    ]
    assert all(a["answer"] == answers[0]["answer"] for a in answers)
    assert all(a["citations"] == answers[0]["citations"] for a in answers)
    assert answers[0]["speculation"]["drafter"] == "off"
    assert answers[3]["speculation"]["drafter"] == "casd"


@pytest.mark.decoder_only("a model server's token ids are not known")
async def test_token_ids_come_where_asked_for(client: httpx.AsyncClient, world: Any) -> None:
    answer = await ask(client)
    assert answer["token_ids"] is None
    place = f"/v1/answers/{answer['answer_id']}"
    asked = (await client.get(place, params={"token_ids": "true"})).json()
    ids = world.tokens.encode_content(world.stage.text).ids
    assert asked == {**answer, "token_ids": asked["token_ids"]}
    assert asked["token_ids"] == [*ids, min(world.tokens.eos_ids)]
    assert (await client.get(place, params={"token_ids": "some"})).status_code == 422


@pytest.mark.decoder_only("a model server decodes in its own way: `exact` is refused")
@pytest.mark.parametrize("exact", ["default", "strict"])
async def test_exact_reaches_the_worker_and_its_counts_come_back(client: httpx.AsyncClient, exact: str) -> None:
    answer = await ask(client, exact=exact)
    record = await client.pipeline.answers.record(answer["answer_id"])  # type: ignore[attr-defined]
    assert record["job"].sampling.exact == exact
    assert {"near_ties", "near_ties_changed", "extra_passes"} <= set(answer["speculation"])


async def test_a_stop_string_cuts_answer_and_citation(client: httpx.AsyncClient) -> None:
    answer = await ask(client, stop=" before")
    assert answer["answer"] == "The quick brown fox jumps over the lazy dog every morning"
    (copied,) = [c for c in answer["citations"] if c["kind"] == "copied"]
    assert copied["answer_end"] == len(answer["answer"])
    assert answer["finish_reason"] == "stop"


async def test_an_answer_without_support_says_so(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "Bananas ripen quickly when stored beside apples."
    unsupported = await ask(client)
    assert unsupported["grounded"] is False
    assert unsupported["citations"] == []
    assert "probably do not state this answer" in unsupported["note"]
    nothing = await ask(client, retrieval={"filter": {"lang": "xx"}})
    assert nothing["passages"] == []
    assert 'No passage was found among the documents that pass the filter lang = "xx", so' in nothing["note"]
    assert "(No passages.)" in world.tokens.decode(world.stage.prompts[-1])
    off = await ask(client, retrieval={"mode": "none"})
    assert "without retrieval" in off["note"]


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_passages_that_do_not_fit_are_dropped_and_reported(client: httpx.AsyncClient, world: Any) -> None:
    crowd = " ".join(f"word{number}" for number in range(50))
    texts = [{"id": f"long-{n}", "text": f"Fact {n}. {crowd}"} for n in range(4)]
    await client.post("/v1/collections", json={"name": "crowded"})
    job = (await client.post("/v1/collections/crowded/documents", json={"documents": texts})).json()["job_id"]
    assert (await finished_job(client, job))["status"] == "succeeded"
    world.stage.text = "Fact."
    answer = await ask(client, collection="crowded", question="Which fact?", max_tokens=16)
    assert answer["passages_dropped"] >= 1
    shown = [p["in_prompt"] for p in answer["passages"]]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] is True


async def test_a_failed_answer_says_why(client: httpx.AsyncClient, world: Any, parse: Any) -> None:
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    stream = AnswerStream(pipeline.redis, "default", answer_id)
    from workers.broker.messages import ErrorEvent

    stream.finish(ErrorEvent(code="out_of_memory", detail="the worker ran out of memory; ask for less"))
    world.stage.open.set()
    answer = (await client.get(f"/v1/answers/{answer_id}")).json()
    assert answer["status"] == "failed"
    assert answer["finish_reason"] == "error"
    assert answer["error"]["code"] == "out_of_memory"
    events = parse((await client.get(f"/v1/answers/{answer_id}/events")).text)
    assert events[-1][1] == "error"
    assert events[-1][2]["code"] == "out_of_memory"


async def test_token_events_name_the_passage_they_copy(client: httpx.AsyncClient) -> None:
    from rag_service.api.sse import source_of
    from workers.broker.messages import TokenOrigin

    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    await pipeline.answers.finished(answer_id)
    job = (await pipeline.answers.record(answer_id))["job"]
    index = next(n for n, segment in enumerate(job.segments) if segment.kind == "passage")
    origin = TokenOrigin(drafter="pld", segment=index, offset=3)
    event = TokenEvent(t=0, ids=[1, 2, 3], text="x", sources=[origin, origin, None])
    assert source_of(event, job) == {
        "drafter": "pld",
        "kind": "passage",
        "collection": "animals",
        "document_id": "foxes",
        "chunk_id": job.segments[index].chunk_id,
        "copied": 2,
        "of": 3,
    }
    assert source_of(event.model_copy(update={"sources": [None, None, None]}), job) is None
    drafted_by_a_head = TokenOrigin(drafter="eagle")
    assert source_of(event.model_copy(update={"sources": [drafted_by_a_head, None, None]}), job) is None


async def finished_job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    for _ in range(600):
        job: dict[str, Any] = (await client.get(f"/v1/jobs/{job_id}")).json()
        if job["status"] not in ("queued", "running"):
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job did not end: {job}")
