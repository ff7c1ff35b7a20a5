"""Rows of earlier turns: whose they are, how much of them is kept, and that no text changes with them."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from decoder import Engine, Prefix, SamplingParams
from decoder.model.kv_cache import KVCache
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, Speculation
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.kv_store import LEAST_SHARED, KvStore, Owner
from workers.worker.runtime import Runtime

WAIT_MS = 20_000
ROOM = 64 * 2**20


def prefix(*ids: int) -> Prefix:
    """A prefix of the ids, of some bytes each."""
    cache = KVCache(1, 1, 2, len(ids), torch.float32, torch.device("cpu"))
    cache.fill_with_zeros(len(ids))
    return Prefix(ids, cache, {})


SIZE = prefix(*range(32)).nbytes // 32


class TestStore:
    def test_a_session_gets_its_own_rows_back_once(self) -> None:
        store, mine = KvStore(), Owner("t", "s")
        kept = prefix(*range(9))
        store.put(mine, kept)
        assert store.owners() == [("t", "s")]
        assert store.take(mine, [*range(9), 50]) is kept
        assert store.take(mine, [*range(9), 50]) is None
        assert store.state()["entries"] == store.state()["bytes"] == 0

    def test_no_other_tenant_gets_them(self) -> None:
        store = KvStore()
        ids = list(range(100))
        store.put(Owner("t", "s", shared=80), prefix(*ids))
        for owner in (Owner("u", "s"), Owner("u", "x"), Owner("", "s"), Owner("", "")):
            assert store.take(owner, [*ids, 5]) is None
        assert store.take(Owner("t", "s"), [*ids, 5]) is not None

    def test_another_person_of_the_tenant_gets_a_copy_and_never_the_rows(self) -> None:
        """Of a session with the same name, too."""
        store, mine, theirs = KvStore(), Owner("t@ann", "s", shared=20), Owner("t@bob", "s", shared=20)
        kept = prefix(*range(60))
        store.put(mine, kept)
        copied = store.take(theirs, [*range(40), 90])
        assert copied is not None
        assert len(copied) == 40
        assert sorted(store.owners()) == [("t@ann", "s")]
        store.put(theirs, copied)
        store.drop("t@bob", "s")
        assert store.take(mine, [*range(60), 90]) is kept
        assert store.take(Owner("t2@ann", "s"), [*range(60), 90]) is None

    def test_another_session_gets_a_copy_of_what_is_shared(self) -> None:
        store = KvStore()
        kept = prefix(*range(60))
        store.put(Owner("t", "s"), kept)
        copied = store.take(Owner("t", "x"), [*range(40), 7, 7])
        assert copied is not None
        assert copied.ids.tolist() == list(range(40))
        assert copied.cache is not kept.cache
        assert ("t", "s") in store.owners()
        few = LEAST_SHARED - 1
        assert store.take(Owner("t", "x"), [*range(few), 70, 70]) is None
        whole = store.take(Owner("t", "x"), list(range(30)))
        assert whole is not None
        assert len(whole) == 29, "the last token always runs"

    def test_the_system_prompt_stays_while_its_session_is_busy(self) -> None:
        store = KvStore()
        store.put(Owner("t", "s", shared=20), prefix(*range(60)))
        assert store.take(Owner("t", "s"), range(70)) is not None
        system = store.take(Owner("t", "x"), [*range(40), 1])
        assert system is not None
        assert system.ids.tolist() == list(range(20))
        before = store.state()["bytes"]
        store.put(Owner("t", "x", shared=20), prefix(*range(20), 9, 9))
        assert store.state()["bytes"] == before + 22 * SIZE, "it is kept once"

    def test_the_least_recently_used_leave_first(self) -> None:
        store = KvStore(100 * SIZE)
        for name in "abc":
            store.put(Owner("t", name), prefix(*range(30)))
        store.take(Owner("t", "x"), list(range(20)))
        store.put(Owner("t", "a"), prefix(*range(31)))
        store.put(Owner("t", "d"), prefix(*range(30)))
        assert {name for name in "abcd" if ("t", name) in store.owners()} == {"a", "c", "d"}
        assert store.state()["bytes"] == 91 * SIZE <= store.most_bytes
        assert store.state()["evicted"] == 1
        store.put(Owner("t", "e"), prefix(*range(101)))
        assert ("t", "e") not in store.owners(), "larger than everything"
        assert store.state()["entries"] == 3

    def test_memory_that_is_short_is_given_back(self) -> None:
        left = [False, True, True]
        store = KvStore(10**9, short=lambda: left.pop(0))
        for name in "abc":
            store.put(Owner("t", name), prefix(*range(30)))
        assert [name for name in "abc" if ("t", name) in store.owners()] == ["c"]
        assert store.clear()
        assert not store.clear()
        assert store.state()["bytes"] == 0

    def test_nothing_is_kept_where_it_is_off(self) -> None:
        store = KvStore(0)
        store.put(Owner("t", "a", shared=20), prefix(*range(30)))
        assert not store.on
        assert store.state()["entries"] == 0

    def test_unused_room_is_given_back(self) -> None:
        store, grown = KvStore(), prefix(*range(30))
        grown.cache.resize(1000)
        store.put(Owner("t", "a"), grown)
        assert store.state()["bytes"] == 30 * SIZE


@pytest.fixture
def open_runtime(tokens: Tokens) -> Iterator[Callable[..., Runtime]]:
    opened: list[Runtime] = []

    def open_(engine: Any, room: int = ROOM) -> Runtime:
        opened.append(Runtime(engine, tokens, KvStore(room)))
        return opened[-1]

    yield open_
    for runtime in opened:
        runtime.close(20)


def ids_of(steps: Any) -> list[int]:
    return [token for step in steps for token in step.tokens]


def test_memory_that_runs_out_is_taken_from_earlier_turns(tokens: Tokens, open_runtime: Any) -> None:
    target = tiny_target(vocab_size=tokens.vocab_size)

    class Full(Engine):
        full = False

        def step(self, sequences: Any) -> Any:
            if self.full and runtime.store.state()["entries"]:
                raise RuntimeError("CUDA out of memory")
            return super().step(sequences)

    engine = Full(target, "auto")
    runtime = open_runtime(engine)
    params = SamplingParams(max_tokens=8)
    expected = ids_of(runtime.submit([5, 6, 7], params, owner=Owner("t", "s")))
    engine.full = True
    assert ids_of(runtime.submit([5, 6, 7], params, owner=Owner("t", "x"))) == expected
    assert runtime.store.state()["evicted"] == 1


def test_an_answer_that_finds_no_memory_to_begin_begins_again_without_kept_rows(
    tokens: Tokens, open_runtime: Any
) -> None:
    class Full(Engine):
        full = False

        def start(self, *args: Any, **options: Any) -> Any:
            if self.full and (runtime.store.state()["entries"] or options["reuse"] is not None):
                raise RuntimeError("CUDA out of memory")
            return super().start(*args, **options)

    engine = Full(tiny_target(vocab_size=tokens.vocab_size), "auto")
    runtime = open_runtime(engine)
    params = SamplingParams(max_tokens=8)
    expected = ids_of(runtime.submit([5, 6, 7], params, owner=Owner("t", "s")))
    engine.full = True
    assert ids_of(runtime.submit([5, 6, 7], params, owner=Owner("t", "s"))) == expected
    assert runtime.store.state()["evicted"] == 1


def test_an_answer_that_never_finds_memory_fails_after_one_more_try(tokens: Tokens, open_runtime: Any) -> None:
    tries: list[bool] = []

    class Full(Engine):
        full = False

        def start(self, *args: Any, **options: Any) -> Any:
            if self.full:
                tries.append(True)
                raise RuntimeError("CUDA out of memory")
            return super().start(*args, **options)

    engine = Full(tiny_target(vocab_size=tokens.vocab_size), "auto")
    runtime = open_runtime(engine)
    params = SamplingParams(max_tokens=8)
    ids_of(runtime.submit([5, 6, 7], params, owner=Owner("t", "s")))
    engine.full = True
    with pytest.raises(RuntimeError, match="out of memory"):
        next(runtime.submit([5, 6, 7], params))
    assert len(tries) == 2
    with pytest.raises(RuntimeError, match="out of memory"):  # nothing is left to give away
        next(runtime.submit([5, 6, 7], params))
    assert len(tries) == 3
    assert runtime.alive


def test_rows_that_memory_has_no_room_for_cost_no_answer(
    tokens: Tokens, open_runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = open_runtime(Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"))

    def full(owner: Owner, prefix: Prefix) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(runtime.store, "put", full)
    assert len(ids_of(runtime.submit([5, 6, 7], SamplingParams(max_tokens=8), owner=Owner("t", "s")))) == 8
    assert len(ids_of(runtime.submit([5, 6, 7], SamplingParams(max_tokens=8)))) == 8
    assert runtime.alive


def test_a_refused_prompt_leaves_the_rows_where_they_were(tokens: Tokens, open_runtime: Any) -> None:
    runtime = open_runtime(Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"))
    first = ids_of(runtime.submit([5, 6, 7], SamplingParams(max_tokens=8), owner=Owner("t", "s")))
    with pytest.raises(ValueError, match="window"):
        next(runtime.submit([5, 6, 7], SamplingParams(max_tokens=10**4), owner=Owner("t", "s")))
    steps = runtime.submit([5, 6, 7, *first, 5], SamplingParams(max_tokens=8), owner=Owner("t", "s"))
    ids_of(steps)
    assert steps.stats.cached_tokens == 3 + len(first) - 1


@pytest.fixture
def talk(queue: Queue, client: Any, tokens: Tokens, redis_url: str) -> Callable[..., list[DoneEvent]]:
    """Holds a conversation of three turns with a fresh worker; gives its answers."""
    letters = {tokens.encode_content(letter).ids[0] for letter in string.ascii_uppercase}
    bias = {token: -100.0 for token in range(tokens.vocab_size) if token not in letters}
    made = 0

    def run(room: int, drafter: str, between: Callable[[Any, int], None] = lambda place, turn: None) -> list[DoneEvent]:
        nonlocal made
        made += 1
        engine = Engine(tiny_target(vocab_size=tokens.vocab_size, memory=0.3), "auto")
        place = make_worker_context(redis_url, tokens, engine, name=f"w{made}", kv_cache_bytes=room)
        segments = [Segment(kind="system", key="y", text="You are kind to foxes. " * 3)]
        answers = []
        with running_worker(redis_url, place):
            for turn in range(3):
                segments.append(Segment(kind="question", key=f"q{turn}", text=f"The fox jumps {turn}? "))
                job = GenerateJob(
                    answer_id=f"a{made}-{turn}",
                    session_id=f"s{made}",
                    question="?",
                    segments=segments,
                    new_from=len(segments) - 1,
                    turn=turn,
                    sampling=Sampling(max_tokens=30, seed=1, logit_bias=bias),
                    speculation=Speculation(drafter=drafter),
                    created=0.0,
                )
                queue.enqueue_generate(job)
                answers.append(end_of(client, job.answer_id))
                segments = [*segments, Segment(kind="answer", key=job.answer_id, ids=answers[-1].ids)]
                between(place, turn)
        return answers

    return run


def end_of(client: Any, answer_id: str) -> DoneEvent:
    stream, after, events = AnswerStream(client, "default", answer_id), "0-0", []
    while not events or events[-1].type != "done":
        entries = stream.read(after, block_ms=WAIT_MS)
        assert entries, f"no event came after {events}"
        after = entries[-1][0]
        events += [event for _, event in entries]
        assert events[-1].type != "error", events[-1]
    assert isinstance(events[-1], DoneEvent)
    return events[-1]


def cached(done: DoneEvent) -> int:
    details = done.usage["prompt_tokens_details"]
    assert isinstance(details, dict)
    return details["cached_tokens"]


@pytest.mark.parametrize("drafter", ["off", "auto"])
def test_follow_ups_reuse_nearly_all_and_say_the_same(talk: Any, queue: Queue, drafter: str) -> None:
    told: list[Any] = []
    without = talk(0, drafter)
    reused = talk(ROOM, drafter, lambda place, turn: told.append(place.runtime.store.state()))
    evicted = talk(ROOM, drafter, lambda place, turn: place.runtime.store.clear())
    assert [one.ids for one in without] == [one.ids for one in reused] == [one.ids for one in evicted]
    assert [one.text for one in without] == [one.text for one in reused]
    assert [cached(one) for one in without] == [cached(one) for one in evicted] == [0, 0, 0]
    for before, after in itertools.pairwise(reused):
        earlier = before.usage["total_tokens"]
        assert isinstance(earlier, int)
        assert cached(after) == earlier - 1 >= 0.95 * earlier
    assert told[-1]["reused_tokens"] == sum(cached(one) for one in reused)
    assert told[-1]["entries"] == 2
    assert 0 < told[-1]["bytes"] < ROOM


def test_the_rows_of_an_erased_session_are_forgotten(talk: Any, queue: Queue, client: Any, redis_url: str) -> None:
    def erase(place: Any, turn: int) -> None:
        if turn < 2:
            return
        shown = next(worker for worker in queue.workers() if worker["name"] == place.name)
        assert {"bytes", "entries", "reused_tokens"} <= set(shown["kv_cache"])
        ((tenant, session),) = place.runtime.store.owners()
        assert client.exists(keys.session(tenant, session))
        Sessions(client).erase(tenant, session)
        while place.runtime.store.owners():
            pass

    talk(ROOM, "auto", erase)
