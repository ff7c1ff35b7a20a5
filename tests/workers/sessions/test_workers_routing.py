"""A session's next answer goes to the worker that keeps its rows, unless that would mean waiting."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from workers.broker import keys
from workers.broker.app import make_app
from workers.broker.messages import GenerateJob, Sampling, Segment
from workers.errors import QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.routing import HEARD_S, home_queue, own_queue, share
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

WAIT_MS = 20_000


def make_job(answer_id: str, session_id: str = "s", **changes: Any) -> GenerateJob:
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": session_id,
        "question": "?",
        "segments": [Segment(kind="question", key="q", text="Who jumps?")],
        "sampling": Sampling(seed=1),
        "created": 0.0,
    }
    return GenerateJob(**{**values, **changes})


def present(client: Any, worker: str, ago: int = 0, **info: Any) -> None:
    client.zadd(keys.WORKERS, {worker: client.time()[0] - ago})
    client.hset(keys.WORKER_INFO, worker, json.dumps({"running": 0, "places": 2, **info}))


def had(client: Any, queue: Queue, worker: str, session_id: str = "s") -> None:
    """A worker had the session's last answer."""
    queue.enqueue_generate(make_job(f"before-{session_id}", session_id))
    AnswerStream(client, "default", f"before-{session_id}", worker=worker).start(session_id)
    client.delete("generate")


def test_the_worker_that_had_the_last_answer_gets_the_next(queue: Queue, client: Any) -> None:
    assert home_queue(client, "default", "s") == "generate"
    had(client, queue, "w")
    present(client, "w")
    queue.enqueue_generate(make_job("a1"))
    assert (client.llen("generate"), client.llen(own_queue("w"))) == (0, 1)
    assert queue.depth() == 1
    assert home_queue(client, "other", "s") == "generate"
    assert home_queue(client, "default", "x") == "generate"


@pytest.mark.parametrize(
    "state",
    [{"ago": HEARD_S + 2}, {"running": 2}, {"places": 0}],
    ids=["silent", "busy", "of an older version"],
)
def test_nobody_waits_for_it(queue: Queue, client: Any, state: dict[str, Any]) -> None:
    had(client, queue, "w")
    assert home_queue(client, "default", "s") == "generate", "never heard of"
    present(client, "w", **state)
    assert home_queue(client, "default", "s") == "generate"


def test_one_answer_waits_there_at_most(queue: Queue, client: Any) -> None:
    had(client, queue, "w")
    had(client, queue, "w", "s2")
    present(client, "w")
    queue.enqueue_generate(make_job("a1"))
    queue.enqueue_generate(make_job("a2", "s2"))
    assert (client.llen("generate"), client.llen(own_queue("w"))) == (1, 1)


def test_others_take_what_stays_there(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> None:
    had(client, queue, "gone")
    present(client, "gone")
    queue.enqueue_generate(make_job("a1"))
    assert share(client, "gone") == 0, "its own it may keep"
    client.lpush("generate", "later")
    assert share(client, "me") == 1
    assert client.lrange("generate", 0, -1)[0] == "later", "what came first is taken first"
    client.lrem("generate", 0, "later")
    with running_worker(redis_url, make_worker_context(redis_url, tokens, FakeEngine(tokens))):
        stream = AnswerStream(client, "default", "a1")
        while (record := stream.record()) is None or record["status"] in ("queued", "running"):
            pass
        assert record["status"] == "succeeded"


def test_a_message_that_comes_back_is_not_lost(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> None:
    """A worker that stops gives a task back to the queue it was sent to; the next worker takes it from there."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(sequence: Any) -> None:
        begun.set()
        go_on.wait(20)

    engine = FakeEngine(tokens, before_step=hold)
    place = make_worker_context(redis_url, tokens, engine, name="first", kv_cache_bytes=2**20)
    with running_worker(redis_url, place):
        while not client.hget(keys.WORKER_INFO, "first"):
            pass
        client.hset(keys.session("default", "s"), "worker", "first")
        assert home_queue(client, "default", "s") == own_queue("first")
        queue.enqueue_generate(make_job("a1"))
        assert begun.wait(20)
        place.runtime.closing.set()
        go_on.set()
    with running_worker(redis_url, make_worker_context(redis_url, tokens, FakeEngine(tokens), name="second")):
        stream = AnswerStream(client, "default", "a1")
        while (record := stream.record()) is None or record["status"] in ("queued", "running"):
            pass
    assert record["status"] == "succeeded"
    assert len(Sessions(client).turns("default", "s")) == 1


def test_what_cannot_be_sent_leaves_nothing(client: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(redis_url)
    queue = Queue(app, client)

    def away(*args: Any) -> str:
        raise QueueUnavailable("away")

    monkeypatch.setattr("workers.sessions.routing.home_queue", away)
    with pytest.raises(QueueUnavailable):
        queue.enqueue_generate(make_job("a1"))
    assert not client.exists(keys.answer("default", "a1"))
    app.close()
