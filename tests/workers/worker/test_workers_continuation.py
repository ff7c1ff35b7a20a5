"""Answers whose worker dies, stalls or loses Redis: another one goes on, and nothing is lost or told twice.

Workers are real processes, killed with SIGKILL. How many tokens an answer may have before a step is said in Redis, so
it stands still at a known place while its worker is killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from decoder import Engine
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, save_tokenizer
from tests.support.stacks.fork_server import fork_server
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.app import make_app, make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.messages import (
    DoneEvent,
    Edit,
    ErrorEvent,
    GenerateJob,
    RepetitionLimit,
    Sampling,
    Segment,
    Speculation,
    TokenEvent,
)
from workers.errors import AnswerTaken, QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.leases import Leases

WAIT_MS = 60_000
ALLOWED = "test:allowed"


def gated(engine: Any, url: str) -> Any:
    """Its answers wait for leave to grow beyond a number of tokens."""
    client, step, pause = make_redis(url), engine.step, threading.Event()

    def wait(sequences: Any) -> Any:
        longest = max((len(sequence.tokens) for sequence in sequences if not sequence._cancelled), default=-1)
        while True:
            with contextlib.suppress(Exception):  # Redis may be away for a while
                if longest < int(client.get(ALLOWED) or 0):
                    return step(sequences)
            pause.wait(0.01)

    engine.step = wait
    return engine


def make_engine(tokens: Tokens) -> Engine:
    return Engine(tiny_target(vocab_size=tokens.vocab_size, memory=0.3), "auto", tokens.eos_ids)


def work(url: str, folder: str, name: str) -> None:
    """A worker process; ends by being killed."""
    import torch

    torch.set_num_threads(1)
    tokens = Tokens.load(Path(folder))
    place = make_worker_context(
        url, tokens, gated(make_engine(tokens), url), name=name, kv_cache_bytes=2**24, lapse_s=1
    )
    with running_worker(url, place):
        threading.Event().wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def tokens(folder: Path) -> Tokens:
    return Tokens.load(folder)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str, str], int]]:
    """Starts a worker process; gives its process id."""
    processes = fork_server()
    begun: list[Any] = []

    def begin(url: str, name: str) -> int:
        process = processes.Process(target=work, args=(url, str(folder), name), daemon=True)
        process.start()
        begun.append(process)
        assert process.pid is not None
        return process.pid

    yield begin
    for process in begun:
        process.kill()
        process.join(20)


def make_job(answer_id: str, edit: bool = False, **changes: Any) -> GenerateJob:
    segments = [Segment(kind="question", key="q", text="The fox jumps over the dog. Who jumps? ")]
    if edit:
        segments.append(Segment(kind="answer", key="a0", text="x", ids=[50, 60, 70, 80] * 6))
        segments.append(Segment(kind="instruction", key="i", text="Say it again. "))
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": f"s-{answer_id}",
        "question": "?",
        "segments": segments,
        "sampling": Sampling(max_tokens=60, seed=3, temperature=0.7, logit_bias={2: -100.0}),
        "speculation": Speculation(drafter="auto", max_nodes=3),
        "edit": Edit(base="a0", root="a0", version=2, instruction="x", segment=1, text="x") if edit else None,
        "created": 0.0,
    }
    return GenerateJob(**{**values, **changes})


class Reader:
    """Reads an answer's events once each, as a client does."""

    def __init__(self, client: Any, answer_id: str) -> None:
        self._stream = AnswerStream(client, "default", answer_id)
        self._after = "0-0"
        self.ids: list[int] = []
        self.text = ""
        self.done: DoneEvent | None = None

    def read(self) -> None:
        """The next events; waits for one."""
        entries = self._stream.read(self._after, block_ms=WAIT_MS)
        assert entries, f"no event came after {self.ids}"
        for self._after, event in entries:
            assert not isinstance(event, ErrorEvent), event
            if isinstance(event, TokenEvent):
                assert event.t == len(self.ids), "nothing is lost, nothing is told twice"
                self.ids += event.ids
                self.text += event.text
            elif isinstance(event, DoneEvent):
                self.done = event

    def until(self, count: int) -> None:
        while len(self.ids) < count:
            self.read()

    def end(self) -> DoneEvent:
        while self.done is None:
            self.read()
        assert self.done.ids == self.ids
        assert self.done.text == self.text
        return self.done


@pytest.fixture
def expected(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> Callable[[GenerateJob], DoneEvent]:
    """What a worker that is left alone answers."""

    def ask(job: GenerateJob) -> DoneEvent:
        place = make_worker_context(redis_url, tokens, make_engine(tokens), name="undisturbed")
        alone = job.model_copy(update={"answer_id": f"{job.answer_id}-alone", "session_id": "alone", "turn": -1})
        with running_worker(redis_url, place):
            queue.enqueue_generate(alone)
            return Reader(client, alone.answer_id).end()

    return ask


@pytest.mark.parametrize("kills", [3, pytest.param(7, marks=pytest.mark.full)])  # an answer ends after 8
@pytest.mark.parametrize("edit", [False, True], ids=["answer", "edit"])
def test_workers_killed_at_random_steps(
    edit: bool, kills: int, start: Any, queue: Queue, client: Any, redis_url: str, expected: Any
) -> None:
    source = random.Random(int(edit))
    job = make_job("a1", edit, turn=0)
    right = expected(job)
    reader = Reader(client, "a1")
    queue.enqueue_generate(job)
    pids = {f"w{number}": start(redis_url, f"w{number}") for number in range(2)}
    for number in range(kills):
        # Each of them does some steps and is killed: while it stands still, or somewhere in its next steps.
        client.set(ALLOWED, len(reader.ids) + source.randint(1, 3))
        reader.until(int(client.get(ALLOWED)))
        while (holder := client.hget(keys.RUNNING, "rag.generate_answer default a1")) not in pids:
            pass
        if source.random() < 0.5:
            client.set(ALLOWED, len(reader.ids) + 3)
        os.kill(pids.pop(holder), signal.SIGKILL)
        pids[f"w{number + 2}"] = start(redis_url, f"w{number + 2}")
    client.set(ALLOWED, 1000)
    done = reader.end()
    assert (done.ids, done.text, done.finish_reason) == (right.ids, right.text, right.finish_reason)
    resumed = done.speculation["resumed_tokens"]
    assert kills <= resumed < len(done.ids)
    assert int(client.hget(keys.answer("default", "a1"), "epoch")) >= 2 * kills + 1
    (turn,) = Sessions(client).turns("default", "s-a1")
    assert (turn.answer_id, turn.base) == ("a1", "a0" if edit else None)
    assert Sessions(client).versions("default", "a0") == (["a0", "a1-alone", "a1"] if edit else ["a0"])
    follow_up = make_job("a2", session_id="s-a1", turn=1)
    queue.enqueue_generate(follow_up)
    Reader(client, "a2").end()
    assert len(Sessions(client).turns("default", "s-a1")) == 2, "the session goes on"


@pytest.mark.parametrize("edit", [False, pytest.param(True, marks=pytest.mark.full)], ids=["answer", "edit"])
def test_a_restart_of_redis_in_the_middle(
    edit: bool, start: Any, tokens: Tokens, tmp_path: Path, queue: Queue, client: Any, expected: Any
) -> None:
    job = make_job("a1", edit, turn=0)
    right = expected(job)
    link = tmp_path / "redis.sock"
    url = f"unix://{link}"
    server = EmbeddedRedis(tmp_path / "data")
    try:
        link.symlink_to(server.start().removeprefix("unix://"))
        own, app = make_redis(url), make_app(url)
        Queue(app, own).enqueue_generate(job)
        start(url, "w1")
        own.set(ALLOWED, 3)
        reader = Reader(own, "a1")
        reader.until(3)
        own.set("written", 1)
        assert own.execute_command("WAITAOF", 1, 0, 30_000)[0] == 1, "a busy disk takes a killed Redis its last second"
        os.kill(server.pid or 0, signal.SIGKILL)
        with pytest.raises(QueueUnavailable):
            reader.until(1000)
        server.stop()
        link.unlink()
        link.symlink_to(server.start().removeprefix("unix://"))
        own.set(ALLOWED, 1000)
        done = reader.end()
        assert (done.ids, done.text) == (right.ids, right.text)
        (turn,) = Sessions(own).turns("default", "s-a1")
        assert turn.base == ("a0" if edit else None)
        assert Sessions(own).versions("default", "a0") == (["a0", "a1"] if edit else ["a0"])
        own.close()
        app.close()
    finally:
        server.stop()


def test_a_stalled_worker_is_refused_when_it_wakes(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> None:
    queue.enqueue_generate(make_job("a1"))
    stalled, next_one = (AnswerStream(client, "default", "a1") for _ in range(2))
    stalled.start()
    stalled.write(TokenEvent(t=0, ids=[5], text="a"))
    assert next_one.start() == ("running", 1)
    with pytest.raises(AnswerTaken, match="another worker"):
        stalled.write(TokenEvent(t=1, ids=[6], text="b"))
    done = DoneEvent(text="ab", ids=[5, 6], finish_reason="stop", usage={}, speculation={}, timings={})
    with pytest.raises(AnswerTaken):
        stalled.finish(done)
    next_one.write(TokenEvent(t=1, ids=[6], text="b"))
    client.hdel(keys.answer("default", "a1"), "epoch")  # as a Redis that lost its last second
    next_one.write(TokenEvent(t=2, ids=[7], text="c"))
    with pytest.raises(AnswerTaken):
        stalled.write(TokenEvent(t=3, ids=[8], text="d"))
    assert next_one.finish(done)


def test_a_lapsed_lease_raises_the_epoch_at_once(queue: Queue, client: Any, redis_url: str) -> None:
    queue.enqueue_generate(make_job("a1"))
    stream = AnswerStream(client, "default", "a1")
    stream.start()
    client.hset(keys.RUNNING, "rag.generate_answer default a1", "gone")
    app = make_app(redis_url)
    assert Leases(client, "me").reclaim(app) == 1
    app.close()
    with pytest.raises(AnswerTaken):
        stream.write(TokenEvent(t=0, ids=[5], text="a"))


def test_a_slow_worker_that_gets_the_message_itself_sends_it_on(client: Any, redis_url: str) -> None:
    """Its lease lapsed while it ran, so its writes are refused; the message for whoever goes on came to itself."""
    app = make_app(redis_url)
    task = ("rag.generate_answer", "t", "a")
    me, other = Leases(client, "me"), Leases(client, "other")
    client.zadd(keys.WORKERS, {"other": client.time()[0]})
    with me.hold(*task) as first:
        assert first
        assert other.reclaim(app) == 1
        with me.hold(*task) as second:
            assert not second
        assert me.reclaim(app) == 0, "it runs still, as far as anyone here knows"
    assert me.reclaim(app) == 1
    assert me.reclaim(app) == 0
    with other.hold(*task) as next_one:
        assert next_one
    app.close()


@pytest.mark.parametrize("text", ["plain words", "unfinished 🦊"])
def test_an_end_that_was_streamed_and_not_written(
    text: str, queue: Queue, client: Any, redis_url: str, tokens: Tokens
) -> None:
    """The worker died between the last id and the end: the text is told once."""
    ids = tokens.encode_content(text).ids[: -1 if "🦊" in text else None]
    sampling = Sampling(max_tokens=len(ids), seed=1)
    queue.enqueue_generate(make_job("a1", sampling=sampling))
    stream = AnswerStream(client, "default", "a1")
    stream.start("s-a1")
    stream.write(TokenEvent(t=0, ids=ids, text=tokens.decode(ids), sources=[None] * len(ids)))
    with running_worker(redis_url, make_worker_context(redis_url, tokens, make_engine(tokens))):
        done = Reader(client, "a1").end()
    assert (done.ids, done.text, done.finish_reason) == (ids, tokens.decode(ids), "length")


@pytest.mark.parametrize("streamed", [0, 30, 59, 60])
def test_an_answer_that_repeats_itself_ends_where_it_would_have(
    streamed: int, queue: Queue, client: Any, redis_url: str, tokens: Tokens
) -> None:
    """Also if the worker died between its last id and its end."""
    stretch = tokens.encode_content("What jumps over the lazy dog? ").ids
    ids = (stretch * 60)[:60]
    assert len(set(stretch)) >= 8
    sampling = Sampling(max_tokens=400, seed=1, repetition=RepetitionLimit(length=60, times=4))
    queue.enqueue_generate(make_job("a1", sampling=sampling))
    stream = AnswerStream(client, "default", "a1")
    stream.start("s-a1")
    if streamed:
        told = ids[:streamed]
        stream.write(TokenEvent(t=0, ids=told, text=tokens.decode(told), sources=[None] * len(told)))
    engine = FakeEngine(tokens, lambda prompt: stretch * 60)
    with running_worker(redis_url, make_worker_context(redis_url, tokens, engine)):
        done = Reader(client, "a1").end()
    assert (done.ids, done.text, done.finish_reason) == (ids, tokens.decode(ids), "repetition")


def test_a_cancelled_answer_keeps_what_its_first_worker_told(
    queue: Queue, client: Any, redis_url: str, tokens: Tokens
) -> None:
    queue.enqueue_generate(make_job("a1"))
    stream = AnswerStream(client, "default", "a1")
    stream.start("s-a1")
    stream.write(TokenEvent(t=0, ids=[50, 51, 52], text=tokens.decode([50, 51, 52]), sources=[None] * 3))
    assert queue.cancel("default", "a1")
    with running_worker(redis_url, make_worker_context(redis_url, tokens, make_engine(tokens))):
        done = Reader(client, "a1").end()
    assert done.ids[:3] == [50, 51, 52]
    assert done.finish_reason == "cancelled"


def test_any_worker_takes_any_turn_even_after_redis_was_restarted(
    tokens: Tokens, tmp_path: Path, queue: Queue, client: Any, redis_url: str
) -> None:
    """Rows kept, another worker, Redis restarted in between, rows evicted: the conversation is the same."""

    def turn(url: str, number: int) -> list[int]:
        own, app = make_redis(url), make_app(url)
        turns = Sessions(own).turns("default", "s", tokens.hash)
        segments = [segment for one in turns for segment in one.segments]
        question = Segment(kind="question", key=f"q{number}", text=f"Who jumps over the {number}? ")
        job = make_job(
            f"a{number}", session_id="s", segments=[*segments, question], new_from=len(segments), turn=number
        )
        Queue(app, own).enqueue_generate(job)
        done = Reader(own, job.answer_id).end()
        own.close()
        app.close()
        return done.ids

    def place(url: str, name: str) -> Any:
        return make_worker_context(url, tokens, make_engine(tokens), name=name, kv_cache_bytes=2**24)

    with running_worker(redis_url, place(redis_url, "only")):
        expected = [turn(redis_url, number) for number in range(4)]
    with EmbeddedRedis(tmp_path / "data") as server, running_worker(server.url, place(server.url, "w1")):
        got = [turn(server.url, 0), turn(server.url, 1)]
    with EmbeddedRedis(tmp_path / "data") as server:
        second = place(server.url, "w2")
        with running_worker(server.url, second):
            got.append(turn(server.url, 2))
            assert second.runtime.store.clear()
            got.append(turn(server.url, 3))
    assert got == expected
