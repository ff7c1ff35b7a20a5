"""Jobs that rewrite a question: kept and routed beside the session that the question belongs to."""

from __future__ import annotations

import json
import time
from typing import Any

import torch

from decoder import Engine, Prefix
from decoder.model.kv_cache import KVCache
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.app import make_async_redis
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, Speculation
from workers.sessions.queue import Queue
from workers.sessions.rewrite_cache import Rewrites
from workers.sessions.routing import own_queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import KvStore, Owner, rewrite_rows

TASK = Segment(kind="system", key="t", text="Rewrite what is asked here. " * 3)
SYSTEM = Segment(kind="system", key="y", text="You are kind to foxes. " * 3)


def prefix(*ids: int) -> Prefix:
    cache = KVCache(1, 1, 2, len(ids), torch.float32, torch.device("cpu"))
    cache.fill_with_zeros(len(ids))
    return Prefix(ids, cache, {})


SIZE = prefix(*range(32)).nbytes // 32


def make_job(answer_id: str, segments: list[Segment], **changes: Any) -> GenerateJob:
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": "s",
        "question": "?",
        "segments": segments,
        "sampling": Sampling(max_tokens=12, seed=1),
        "speculation": Speculation(drafter="off"),
        "created": 0.0,
    }
    return GenerateJob(**{**values, **changes})


def rewriting(answer_id: str, text: str, session_id: str = "s") -> GenerateJob:
    asked = Segment(kind="question", key=answer_id, text=text)
    return make_job(answer_id, [TASK, asked], session_id="", turn=-1, rewrites=session_id)


class TestRows:
    def test_they_are_kept_where_there_is_room_alone(self) -> None:
        store, minor = KvStore(100 * SIZE), Owner("t", rewrite_rows("s"), minor=True)
        store.put(Owner("t", "a"), prefix(*range(50)))
        store.put(minor, prefix(*range(100, 151)))
        assert (minor.name, minor.session) not in store.owners()
        store.put(minor, prefix(*range(100, 150)))
        assert (minor.name, minor.session) in store.owners()
        assert (("t", "a") in store.owners(), store.state()["evicted"]) == (True, 0)

    def test_they_leave_before_all_others(self) -> None:
        store, minor = KvStore(100 * SIZE), Owner("t", rewrite_rows("s"), minor=True)
        store.put(Owner("t", "a"), prefix(*range(40)))
        store.put(minor, prefix(*range(100, 140)))
        copied = store.take(Owner("t", rewrite_rows("x"), minor=True), [*range(100, 130), 1, 2])
        assert copied is not None
        assert len(copied) == 30, "another session's rewrite begins on what is the same"
        store.put(Owner("t", "b"), prefix(*range(50)))
        assert store.owners() == [("t", "a"), ("t", "b")]

    def test_memory_that_is_short_is_not_asked_for(self) -> None:
        store = KvStore(10**9, short=lambda: True)
        store.put(Owner("t", rewrite_rows("s"), minor=True), prefix(*range(30)))
        assert store.state()["entries"] == 0


def end_of(client: Any, answer_id: str) -> DoneEvent:
    stream, after = AnswerStream(client, "default", answer_id), "0-0"
    while True:
        entries = stream.read(after, block_ms=20_000)
        assert entries
        after = entries[-1][0]
        for _, event in entries:
            assert event.type != "error", event
            if isinstance(event, DoneEvent):
                return event


def cached(done: DoneEvent) -> Any:
    details = done.usage["prompt_tokens_details"]
    assert isinstance(details, dict)
    return details["cached_tokens"]


def test_the_session_goes_on_as_if_nothing_was_rewritten(
    queue: Queue, client: Any, tokens: Tokens, redis_url: str
) -> None:
    engine = Engine(tiny_target(vocab_size=tokens.vocab_size, memory=0.3), "off")
    place = make_worker_context(redis_url, tokens, engine, name="w", kv_cache_bytes=64 * 2**20)
    place.store = None
    first = make_job("a1", [SYSTEM, Segment(kind="question", key="q1", text="Who jumps?")], turn=0)
    with running_worker(redis_url, place):

        def run(job: GenerateJob) -> DoneEvent:
            queue.enqueue_generate(job)
            return end_of(client, job.answer_id)

        one = run(first)
        before = client.hgetall(keys.session("default", "s"))
        asked = run(rewriting("r1", "Question: Who jumps? Last question: When?"))
        assert cached(asked) == 0
        again = run(rewriting("r2", "Question: Who jumps? Last question: Why?"))
        assert cached(again) > 16, "it begins on the rows of the one before"
        apart = run(rewriting("r3", "Question: Who jumps? Last question: Why?", session_id=""))
        assert cached(apart) == 0, "outside sessions none are used or kept"
        assert client.hgetall(keys.session("default", "s")) == before
        assert client.smembers(keys.session_answers("default", "s")) == {"a1"}
        kept = set(place.runtime.store.owners())
        assert kept == {("default", "s"), ("default", rewrite_rows("s"))}
        ids = one.ids[:-1] if one.ids[-1] in tokens.eos_ids else one.ids
        segments = [
            *first.segments,
            Segment(kind="answer", key="a1", ids=ids),
            Segment(kind="question", key="q2", text="When?"),
        ]
        follow_up = run(make_job("a2", segments, new_from=3, turn=1))
        assert cached(follow_up) >= one.usage["prompt_tokens"] + len(ids) - 1, "its own rows are where they were"
        assert len(Sessions(client).turns("default", "s")) == 2
        Sessions(client).erase("default", "s")
        deadline = time.monotonic() + 20
        while place.runtime.store.owners():
            assert time.monotonic() < deadline, "the rows of an erased session's rewrites stay"


def test_it_is_sent_to_the_worker_of_its_session(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job("before", [SYSTEM]))
    AnswerStream(client, "default", "before", worker="w").start("s")
    client.delete("generate")
    client.zadd(keys.WORKERS, {"w": client.time()[0]})
    client.hset(keys.WORKER_INFO, "w", json.dumps({"running": 0, "places": 2}))
    queue.enqueue_generate(rewriting("r1", "Why?"))
    assert (client.llen("generate"), client.llen(own_queue("w"))) == (0, 1)
    queue.enqueue_generate(rewriting("r2", "Why?", session_id=""))
    assert client.llen("generate") == 1
    assert not client.exists(keys.session("default", ""))


async def test_what_was_rewritten_is_kept_with_its_session(queue: Queue, client: Any, redis_url: str) -> None:
    queue.enqueue_generate(make_job("a1", [SYSTEM]))
    asynchronous = make_async_redis(redis_url)
    try:
        known = Rewrites(asynchronous, 100)
        await known.put("default", "s", "d1", "Who jumps?")
        assert await known.get("default", "s", "d1") == "Who jumps?"
        assert await known.get("default", "s", "d2") is None
        assert await known.get("other", "s", "d1") is None
        await known.put("default", "s", "d2", "Why?")
        assert await known.get("default", "s", "d1") is None, "one a session"
        assert client.ttl(keys.session("default", "s")) > 0
        Sessions(client).erase("default", "s")
        assert await known.get("default", "s", "d2") is None
        await known.put("default", "", "d3", "Where?")
        assert await known.get("default", "", "d3") == "Where?"
        assert 0 < client.ttl(keys.rewrite("default", "d3")) <= 100
    finally:
        await asynchronous.aclose()
