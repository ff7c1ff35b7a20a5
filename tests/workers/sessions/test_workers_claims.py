"""A session's next turn belongs to one answer at a time, and comes free again whatever happens to it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.messages import DoneEvent, Edit, ErrorEvent, GenerateJob, Sampling, Segment, TokenEvent, TurnRecord
from workers.errors import ClaimLost, QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.sessions import BUILD_S, Sessions
from workers.sessions.streams import CLAIM_S, AnswerStream

CLAIM = keys.session_claim("default", "s1")


def make_job(answer_id: str = "a1", **changes: Any) -> GenerateJob:
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": "s1",
        "question": "why?",
        "segments": [Segment(kind="question", key="q", text="why?")],
        "sampling": Sampling(seed=7),
        "turn": 0,
        "created": 12.5,
    }
    return GenerateJob(**{**values, **changes})


def make_turn(answer_id: str) -> TurnRecord:
    segments = [Segment(kind="answer", key=answer_id, text="yes", ids=[1, 2])]
    return TurnRecord(answer_id=answer_id, question="why?", segments=segments, passages=[], created=1.0)


DONE = DoneEvent(text="yes", ids=[1, 2], finish_reason="stop", usage={}, speculation={}, timings={})


def end(client: Any, answer_id: str, event: Any = DONE) -> bool:
    stream = AnswerStream(client, "default", answer_id)
    turn = make_turn(answer_id) if isinstance(event, DoneEvent) else None
    return stream.finish(event, session_id="s1", turn=turn, turns_before=0)


def test_one_of_many_gets_it(client: Any, redis_url: str) -> None:
    barrier, got = threading.Barrier(8), []

    def claim(name: str) -> None:
        own = make_redis(redis_url)
        barrier.wait(20)
        if Sessions(own).claim("default", "s1", name) is None:
            got.append(name)
        own.close()

    threads = [threading.Thread(target=claim, args=(f"a{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(got) == 1
    assert client.get(CLAIM) == got[0]
    assert Sessions(client).claim("default", "s1", "late") == got[0]
    assert Sessions(client).claim("default", "s1", got[0]) is None, "its own is renewed"
    assert Sessions(client).claim("default", "s2", "late") is None
    assert Sessions(client).claim("other", "s1", "late") is None


def test_the_lease_follows_the_answer(queue: Queue, client: Any) -> None:
    sessions = Sessions(client)
    assert sessions.claim("default", "s1", "a1") is None
    assert 0 < client.ttl(CLAIM) <= BUILD_S
    queue.enqueue_generate(make_job(), claimed=True)
    assert BUILD_S < client.ttl(CLAIM) <= CLAIM_S
    stream = AnswerStream(client, "default", "a1")
    for renew in (lambda: stream.start("s1"), lambda: stream.write(TokenEvent(t=0, ids=[1], text="y"))):
        client.expire(CLAIM, 5)
        renew()
        assert client.ttl(CLAIM) > BUILD_S
    assert end(client, "a1")
    assert not client.exists(CLAIM)
    assert sessions.claim("default", "s1", "a2") is None


def test_nobody_renews_or_gives_back_what_is_anothers(queue: Queue, client: Any) -> None:
    sessions = Sessions(client)
    sessions.claim("default", "s1", "a1")
    queue.enqueue_generate(make_job(), claimed=True)
    client.delete(CLAIM)
    sessions.claim("default", "s1", "a2")
    client.expire(CLAIM, 5)
    stream = AnswerStream(client, "default", "a1")
    stream.start("s1")
    stream.write(TokenEvent(t=0, ids=[1], text="y"))
    sessions.release("default", "s1", "a1")
    assert 0 < client.ttl(CLAIM) <= 5
    assert not end(client, "a1"), "the turn is another's"
    assert sessions.turns("default", "s1") == []
    assert client.get(CLAIM) == "a2"
    sessions.release("default", "s1", "a2")
    assert not client.exists(CLAIM)


def test_an_answer_without_its_turn_is_not_enqueued(queue: Queue, client: Any) -> None:
    for holder in (None, "a2"):
        if holder:
            Sessions(client).claim("default", "s1", holder)
        with pytest.raises(ClaimLost, match="ask again"):
            queue.enqueue_generate(make_job(), claimed=True)
        assert sorted(client.keys("rag:default:*")) == ([CLAIM] if holder else [])
        assert client.llen("generate") == 0


def test_a_failure_frees_it(queue: Queue, client: Any) -> None:
    Sessions(client).claim("default", "s1", "a1")
    queue.enqueue_generate(make_job(), claimed=True)
    end(client, "a1", ErrorEvent(code="out_of_memory", detail="ask for less"))
    assert not client.exists(CLAIM)


def test_what_could_not_be_sent_leaves_nothing(queue: Queue, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise ConnectionError("gone")

    edit = Edit(base="a0", root="a0", version=2, instruction="x", segment=0, text="t")
    Sessions(client).claim("default", "s1", "a1")
    monkeypatch.setattr(queue._app, "send_task", fail)
    with pytest.raises(QueueUnavailable):
        queue.enqueue_generate(make_job(edit=edit), claimed=True)
    assert not client.exists(CLAIM)
    assert not client.exists(keys.answer("default", "a1"))
    assert Sessions(client).versions("default", "a0") == ["a0"]


def test_versions_are_listed_in_order(queue: Queue, client: Any) -> None:
    sessions = Sessions(client)
    assert sessions.versions("default", "a0") == ["a0"]
    for number, base in ((2, "a0"), (3, "a2")):
        edit = Edit(base=base, root="a0", version=number, instruction="x", segment=0, text="t")
        queue.enqueue_generate(make_job(f"a{number}", edit=edit))
    assert sessions.versions("default", "a0") == ["a0", "a2", "a3"]
    assert client.ttl(keys.versions("default", "a0")) > 0
    assert sessions.versions("other", "a0") == ["a0"]
