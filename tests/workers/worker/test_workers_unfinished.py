"""Answers whose message was lost are sent again, against a real Redis; the others are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from tests.support.fake_workers import FakeEngine, speak
from workers.broker import keys
from workers.broker.app import GENERATE_QUEUE, make_app
from workers.broker.messages import ErrorEvent, GenerateJob, Sampling, Segment
from workers.sessions.queue import Queue
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.leases import Leases
from workers.worker.tasks import MOST_LOST, run_generate
from workers.worker.unfinished import PATIENCE_BEATS, Unfinished


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    app = make_app(redis_url)
    yield app
    app.close()


def ask(queue: Queue, answer_id: str) -> None:
    segments = [Segment(kind="question", key="q", text="What jumps?")]
    queue.enqueue_generate(
        GenerateJob(
            answer_id=answer_id,
            session_id="s",
            question="?",
            segments=segments,
            sampling=Sampling(seed=1, max_tokens=100),
            created=0.0,
        )
    )


def test_only_a_lost_message_is_sent_again(queue: Queue, client: Any, app: Celery) -> None:
    ask(queue, "there")
    ask(queue, "lost")
    ask(queue, "held")
    client.hset(keys.RUNNING, keys.answer_task("default", "held"), "someone")
    messages = client.lrange(GENERATE_QUEUE, 0, -1)
    for message in messages:
        if '"id": "there"' not in message:
            client.lrem(GENERATE_QUEUE, 1, message)
    assert queue.depth() == 1
    unfinished = Unfinished(client)
    assert [unfinished.resend_lost(app) for _ in range(PATIENCE_BEATS)] == [0] * PATIENCE_BEATS
    assert unfinished.resend_lost(app) == 1
    waiting = client.lrange(GENERATE_QUEUE, 0, -1)
    assert len(waiting) == 2
    assert any('"id": "lost"' in message for message in waiting)
    assert sum(unfinished.resend_lost(app) for _ in range(3 * PATIENCE_BEATS)) == 0


def test_one_in_a_workers_own_queue_is_not_lost(queue: Queue, client: Any, app: Celery) -> None:
    ask(queue, "a")
    client.zadd(keys.QUEUES, {"generate.w": 1})
    client.rename(GENERATE_QUEUE, "generate.w")
    unfinished = Unfinished(client)
    assert sum(unfinished.resend_lost(app) for _ in range(3 * PATIENCE_BEATS)) == 0


def test_ended_and_erased_answers_are_forgotten(queue: Queue, client: Any, app: Celery) -> None:
    for answer_id in ("ended", "erased", "open"):
        ask(queue, answer_id)
    stream = AnswerStream(client, "default", "ended")
    stream.start()
    stream.finish(ErrorEvent(code="internal_error", detail="x"))
    client.delete(keys.answer("default", "erased"))
    client.delete(GENERATE_QUEUE)
    unfinished = Unfinished(client)
    assert sum(unfinished.resend_lost(app) for _ in range(PATIENCE_BEATS + 1)) == 1
    assert client.smembers(keys.UNFINISHED) == {keys.answer_task("default", "open")}


def test_a_worker_answers_what_it_was_never_told_of(
    queue: Queue, client: Any, work: Any, tokens: Tokens, app: Celery
) -> None:
    """The message was read, and Redis died before the worker had it."""
    ask(queue, "a")
    client.delete(GENERATE_QUEUE)
    place = work(FakeEngine(tokens, speak(tokens, "The fox.")))
    for _ in range(PATIENCE_BEATS + 1):
        place.after_beat(app)
    events = []
    stream, after = AnswerStream(client, "default", "a"), "0-0"
    while not events or events[-1].type not in ("done", "error"):
        entries = stream.read(after, block_ms=20_000)
        assert entries
        after = entries[-1][0]
        events += [event for _, event in entries]
    assert events[-1].text == "The fox."


def test_an_answer_over_which_workers_die_is_given_up(
    queue: Queue, client: Any, work: Any, tokens: Tokens, app: Celery
) -> None:
    ask(queue, "a")
    client.delete(GENERATE_QUEUE)
    leases = Leases(client, "me")
    for number in range(MOST_LOST):
        client.hset(keys.RUNNING, keys.answer_task("default", "a"), f"dead-{number}")
        assert leases.reclaim(app) == 1
    client.delete(GENERATE_QUEUE)
    place = work(FakeEngine(tokens, speak(tokens, "The fox.")))
    run_generate(place, "default", "a")
    record = AnswerStream(client, "default", "a").record()
    assert record is not None
    assert record["status"] == "failed"
    assert record["error"] is not None
    assert f"{MOST_LOST} workers" in record["error"].detail
    assert not client.exists(keys.UNFINISHED)


def test_an_answer_whose_texts_are_gone_or_unreadable_is_not_sent_for_ever(
    queue: Queue, client: Any, work: Any, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(queue, "erased")
    ask(queue, "damaged")
    client.delete(GENERATE_QUEUE)
    client.hset(keys.answer("default", "damaged"), "request", "{")
    place = work(FakeEngine(tokens, speak(tokens, "The fox.")))
    run_generate(place, "default", "damaged")
    assert client.hget(keys.answer("default", "damaged"), "status") == "failed"
    monkeypatch.setattr(AnswerStream, "record", lambda self: None)  # what its record names is gone
    run_generate(place, "default", "erased")
    assert not client.exists(keys.UNFINISHED)
    assert not client.exists(keys.answer("default", "erased"))


def test_what_fails_after_a_heartbeat_keeps_nothing_else_from_being_done(
    queue: Queue, client: Any, work: Any, tokens: Tokens, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(queue, "a")
    client.rename(GENERATE_QUEUE, "generate.gone")
    client.zadd(keys.QUEUES, {"generate.gone": client.time()[0]})
    place = work(FakeEngine(tokens, speak(tokens, "The fox.")))

    def fails(app: Celery) -> int:
        raise ValueError("a key that nobody thought of")

    monkeypatch.setattr(place.leases, "reclaim", fails)
    monkeypatch.setattr(place.unfinished, "resend_lost", fails)
    place.after_beat(app)
    assert not client.exists("generate.gone"), "what waits in a dead worker's queue moves to the common one"
