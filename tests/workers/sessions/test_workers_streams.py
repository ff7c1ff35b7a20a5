"""Answers, their streams, sessions and the queue against a real server."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.finished_turns import append_turn
from workers.broker import keys
from workers.broker.app import broker_url, make_app, make_async_redis, make_redis
from workers.broker.messages import (
    DoneEvent,
    ErrorEvent,
    GenerateJob,
    PassagesEvent,
    Sampling,
    Segment,
    TokenEvent,
    TokenOrigin,
    TurnRecord,
)
from workers.sessions.queue import Queue, QueueUnavailable
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerEnded, AnswerMissing, AnswerStream, StreamAhead


def make_job(answer_id: str = "a1", session_id: str = "s1", **changes: Any) -> GenerateJob:
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": session_id,
        "question": "why?",
        "segments": [Segment(kind="question", key="q", text="why?")],
        "sampling": Sampling(seed=7, logit_bias={5: float("-inf")}),
        "created": 12.5,
    }
    return GenerateJob(**{**values, **changes})


def make_done(finish_reason: Any = "stop") -> DoneEvent:
    return DoneEvent(text="yes", ids=[1, 2], finish_reason=finish_reason, usage={}, speculation={}, timings={})


def make_turn(answer_id: str = "a1") -> TurnRecord:
    segments = [Segment(kind="answer", key=answer_id, text="yes", ids=[1, 2])]
    return TurnRecord(answer_id=answer_id, question="why?", segments=segments, passages=[], created=1.0)


def test_enqueued_answer_has_record_first_event_and_task(queue: Queue, client: Any) -> None:
    job = make_job(passages=[{"text": "p"}])
    queue.enqueue_generate(job)
    stream = AnswerStream(client, "default", "a1")
    record = stream.record()
    assert record is not None
    assert (record["status"], record["seed"], record["passages"]) == ("queued", 7, [{"text": "p"}])
    assert record["job"] == job
    assert record["result"] is None
    assert [event for _, event in stream.read()] == [PassagesEvent(passages=[{"text": "p"}])]
    assert queue.depth() == 1
    assert json.loads(client.lindex("generate", 0))["content-type"] == "application/json"
    assert client.ttl(keys.answer("default", "a1")) > 0
    assert client.ttl(keys.answer_events("default", "a1")) > 0


def test_reading_resumes_after_an_entry(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job())
    stream = AnswerStream(client, "default", "a1")
    first = stream.write(TokenEvent(t=0, ids=[4], text="a"))
    second = stream.write(TokenEvent(t=1, ids=[5, 6], text="b", sources=[None, TokenOrigin(drafter="pld")]))
    assert stream.read(after=first) == [
        (second, TokenEvent(t=1, ids=[5, 6], text="b", sources=[None, TokenOrigin(drafter="pld")]))
    ]
    assert stream.read(after=second) == []


async def test_events_that_only_a_newer_version_knows_are_skipped(queue: Queue, client: Any, redis_url: str) -> None:
    queue.enqueue_generate(make_job())
    asynchronous = make_async_redis(redis_url)
    stream = AnswerStream(client, "default", "a1", asynchronous)
    passages = stream.read()[0][0]
    unknown = client.xadd(keys.answer_events("default", "a1"), {"event": json.dumps({"type": "new", "of": "later"})})
    assert stream.read(after=passages, count=1) == await stream.aread(after=passages, count=1) == []
    token = TokenEvent(t=0, ids=[4], text="a")
    written = stream.write(token)
    known = [(written, token)]
    assert stream.read(after=passages, count=1) == await stream.aread(after=passages, count=1) == known
    assert stream.read(after=unknown, count=1) == known
    assert stream.streamed() == [token], "a worker that takes the answer over goes on"
    await asynchronous.aclose()


def test_blocking_read_wakes_up_when_an_event_comes(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job())
    stream = AnswerStream(client, "default", "a1")
    after = stream.read()[-1][0]
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.extend(stream.read(after, block_ms=30_000)))
    reader.start()
    stream.write(TokenEvent(t=0, ids=[1], text="x"))
    reader.join(timeout=20)
    assert [event.text for _, event in found] == ["x"]


async def test_asynchronous_read(queue: Queue, client: Any, redis_url: str) -> None:
    queue.enqueue_generate(make_job())
    other = make_async_redis(redis_url)
    stream = AnswerStream(client, "default", "a1", other)
    assert await stream.aread(block_ms=1000) == stream.read()
    record = await stream.arecord()
    assert record == stream.record()
    after = stream.read()[-1][0]
    assert await stream.aread(after, block_ms=30) == []
    await other.aclose()


@pytest.mark.parametrize("after", ["", "x", "1-2-3", "-1", "99999999999999999999", "$", "1-", "18446744073709551616"])
def test_a_bad_entry_id_is_named(client: Any, after: str) -> None:
    with pytest.raises(ValueError, match="not an event id"):
        AnswerStream(client, "default", "a1").read(after)


def test_ids_cannot_be_written_twice(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job())
    stream = AnswerStream(client, "default", "a1")
    assert stream.start() == ("running", 0)
    stream.write(TokenEvent(t=0, ids=[1, 2, 3], text="abc"))
    assert stream.start() == ("running", 3)
    for t in (0, 2, 4):
        with pytest.raises(StreamAhead) as refused:
            stream.write(TokenEvent(t=t, ids=[9], text="z"))
        assert refused.value.streamed == 3
    assert len(stream.read()) == 2


def test_an_answer_ends_once_with_its_turn(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job())
    stream = AnswerStream(client, "default", "a1")
    tail = TokenEvent(t=0, ids=[], text="s")
    assert stream.finish(make_done(), pending=tail, session_id="s1", turn=make_turn())
    assert stream.finish(ErrorEvent(code="late", detail="."), session_id="s1", turn=make_turn())
    with pytest.raises(AnswerEnded):
        stream.write(TokenEvent(t=0, ids=[1], text="x"))
    assert [event for _, event in stream.read()][1:] == [tail, make_done()]
    record = stream.record()
    assert record is not None
    assert (record["status"], record["result"], record["error"]) == ("succeeded", make_done(), None)
    assert Sessions(client).turns("default", "s1") == [make_turn()]
    assert not queue.cancel("default", "a1")


def test_a_turn_that_misses_another_one_stays_out_of_the_session(queue: Queue, client: Any) -> None:
    for answer_id in ("a1", "a2"):
        queue.enqueue_generate(make_job(answer_id))
    done = [
        AnswerStream(client, "default", answer_id).finish(
            make_done(), session_id="s1", turn=make_turn(answer_id), turns_before=0
        )
        for answer_id in ("a1", "a2")
    ]
    assert done == [True, False]
    assert [turn.answer_id for turn in Sessions(client).turns("default", "s1")] == ["a1"]
    assert AnswerStream(client, "default", "a2").record() is not None


def test_errors_and_cancellation_are_states(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job("a1"))
    queue.enqueue_generate(make_job("a2"))
    assert queue.cancel("default", "a1")
    assert client.exists(keys.answer_cancel("default", "a1"))
    AnswerStream(client, "default", "a1").finish(make_done("cancelled"))
    AnswerStream(client, "default", "a2").finish(ErrorEvent(code="x", detail="y"))
    first, second = (AnswerStream(client, "default", name).record() for name in ("a1", "a2"))
    assert first is not None
    assert second is not None
    assert (first["status"], second["status"], second["error"]) == (
        "cancelled",
        "failed",
        ErrorEvent(code="x", detail="y"),
    )
    assert not client.exists(keys.answer_cancel("default", "a1"))
    assert not queue.cancel("default", "unknown")


def test_erasing_a_session_erases_its_answers(queue: Queue, client: Any) -> None:
    sessions = Sessions(client)
    queue.enqueue_generate(make_job("a1"))
    queue.enqueue_generate(make_job("a2"))
    queue.enqueue_generate(make_job("other", "s2"))
    AnswerStream(client, "default", "a1").finish(make_done(), session_id="s1", turn=make_turn())
    assert {summary["session_id"]: summary["turns"] for summary in sessions.list("default")} == {"s1": 1, "s2": 0}
    assert sessions.list("default", limit=1)[0]["question"] == "why?"
    assert sessions.erase("default", "s1")
    assert not sessions.erase("default", "s1")
    assert not sessions.exists("default", "s1")
    assert [name for name in client.keys("rag:*") if "s1" in name or ":a1" in name or ":a2" in name] == []
    assert sessions.exists("default", "s2")
    for answer_id in ("a1", "a2"):
        with pytest.raises(AnswerMissing):
            AnswerStream(client, "default", answer_id).write(TokenEvent(t=0, ids=[1], text="x"))
        with pytest.raises(AnswerMissing):
            AnswerStream(client, "default", answer_id).finish(make_done(), session_id="s1", turn=make_turn())
    assert not sessions.exists("default", "s1")


def test_appended_turns_keep_order_and_expire(client: Any) -> None:
    sessions = Sessions(client)
    for answer_id in ("a1", "a2", "a3"):
        append_turn(client, "t", "s", make_turn(answer_id), ttl_s=100)
    assert [turn.answer_id for turn in sessions.turns("t", "s")] == ["a1", "a2", "a3"]
    assert 0 < client.ttl(keys.session_turns("t", "s")) <= 100
    assert sessions.turns("default", "s") == []


def test_tenants_are_apart(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job(tenant="one"))
    assert AnswerStream(client, "two", "a1").record() is None
    assert not queue.cancel("two", "a1")
    assert not Sessions(client).exists("two", "s1")


def test_only_a_recent_heartbeat_counts(queue: Queue, client: Any) -> None:
    assert not queue.workers()
    now = client.time()[0]
    client.zadd(keys.WORKERS, {"old": now - 60})
    assert not queue.workers()
    client.zadd(keys.WORKERS, {"new": now - 5})
    client.hset(keys.WORKER_INFO, "new", '{"model":"m"}')
    assert queue.workers() == [{"name": "new", "model": "m"}]


def test_an_absent_redis_is_noticed_soon_and_said(dead_url: str) -> None:
    app, client = make_app(dead_url), make_redis(dead_url)
    queue = Queue(app, client)
    started = time.monotonic()
    calls = [
        lambda: queue.enqueue_generate(make_job()),
        lambda: queue.cancel("default", "a1"),
        queue.workers,
        queue.depth,
        lambda: AnswerStream(client, "default", "a1").read(block_ms=5000),
        lambda: AnswerStream(client, "default", "a1").record(),
        lambda: Sessions(client).turns("default", "s1"),
        lambda: Sessions(client).list("default"),
    ]
    for call in calls:
        with pytest.raises(QueueUnavailable, match="Redis cannot be reached"):
            call()
    assert time.monotonic() - started < 2 * len(calls)
    app.close()


async def test_an_absent_redis_is_noticed_by_asyncio(dead_url: str) -> None:
    other = make_async_redis(dead_url)
    with pytest.raises(QueueUnavailable):
        await AnswerStream(None, "default", "a1", other).aread(block_ms=5000)
    await other.aclose()


def test_nothing_is_left_when_the_task_cannot_be_sent(client: Any, dead_url: str) -> None:
    app = make_app(dead_url)
    queue = Queue(app, client)
    with pytest.raises(QueueUnavailable):
        queue.enqueue_generate(make_job())
    assert client.keys("*") == []
    app.close()


def test_a_failed_question_keeps_the_session_it_belongs_to(client: Any, dead_url: str) -> None:
    append_turn(client, "default", "s1", make_turn("a0"))
    app = make_app(dead_url)
    with pytest.raises(QueueUnavailable):
        Queue(app, client).enqueue_generate(make_job())
    assert Sessions(client).exists("default", "s1")
    app.close()


@given(text=st.text(st.characters(codec="utf-8")), name=st.text(st.characters(codec="utf-8"), max_size=5))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_unicode_survives(client: Any, redis_url: str, text: str, name: str) -> None:
    client.flushall()
    app = make_app(redis_url)
    passages = [{"text": text, name: [None, 1.5, {"x": name}]}]
    Queue(app, client).enqueue_generate(make_job(question=text, passages=passages))
    stream = AnswerStream(client, "default", "a1")
    stream.write(TokenEvent(t=0, ids=[1], text=text))
    stream.finish(make_done().model_copy(update={"text": text}))
    events = [event for _, event in stream.read()]
    assert [event.type for event in events] == ["passages", "token", "done"]
    assert events[0] == PassagesEvent(passages=passages)
    assert [getattr(event, "text", None) for event in events[1:]] == [text, text]
    record = stream.record()
    assert record is not None
    assert record["question"] == text
    app.close()


def test_broker_urls() -> None:
    assert broker_url("redis://h:6379/0") == "redis://h:6379/0"
    assert broker_url("unix:///a/b.sock") == "redis+socket:///a/b.sock"
    for wrong in ("http://x", "unix://", "redis.sock", ""):
        with pytest.raises(ValueError, match="redis URL must be"):
            broker_url(wrong)
