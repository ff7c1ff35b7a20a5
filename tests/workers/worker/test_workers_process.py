"""Worker processes as they really run: started, told to stop, killed, replaced. And what tells that they live."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_workers import save_tokenizer
from workers.broker import keys
from workers.broker.app import make_app, make_redis
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, TokenEvent
from workers.errors import QueueUnavailable
from workers.sessions.queue import Queue
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.heartbeat import Heartbeat
from workers.worker.leases import Leases

TEXT = "The quick brown fox jumps over the lazy dog. " * 12
PROCESS = """
import sys, threading
from pathlib import Path
from workers.broker.app import make_app
from workers.worker.main import serve
from tests.support.fake_workers import FakeEngine, make_worker_context, speak
from workers.tokens.tokenizer import Tokens
url, folder, name, pause, text = sys.argv[1:]
tokens = Tokens.load(Path(folder))
never = threading.Event()
engine = FakeEngine(tokens, speak(tokens, text), before_step=lambda sequence: never.wait(float(pause)) and None)
place = make_worker_context(url, tokens, engine, name=name)
sys.exit(serve(make_app(url), place, {"model": "fake"}, concurrency=2, drain_s=0.2))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


class Processes:
    def __init__(self, url: str, folder: Path, queue: Queue) -> None:
        self.url, self.folder, self.queue = url, folder, queue
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, pause: float) -> subprocess.Popen[bytes]:
        root = Path(__file__).parents[3]
        command = [sys.executable, "-c", PROCESS, self.url, str(self.folder), name, str(pause), TEXT]
        process = subprocess.Popen(command, cwd=root)
        self.started.append(process)
        while not any(worker["name"] == name for worker in self.queue.workers()):
            assert process.poll() is None, "the worker ended before it was ready"
            time.sleep(0.02)
        return process


@pytest.fixture
def processes(redis_url: str, folder: Path, queue: Queue) -> Iterator[Processes]:
    processes = Processes(redis_url, folder, queue)
    yield processes
    for process in processes.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def ask(queue: Queue, folder: Path, answer_id: str) -> Tokens:
    tokens = Tokens.load(folder)
    segments = [Segment(kind="question", key="q", text="What jumps?")]
    sampling = Sampling(seed=1, max_tokens=1000)
    queue.enqueue_generate(
        GenerateJob(
            answer_id=answer_id, session_id="s", question="?", segments=segments, sampling=sampling, created=0.0
        )
    )
    return tokens


def wait_for_ids(client: Any, answer_id: str, count: int) -> None:
    stream = AnswerStream(client, "default", answer_id)
    while (record := stream.record()) is None or record["streamed"] < count:
        time.sleep(0.01)


def check_answer(client: Any, answer_id: str, tokens: Tokens) -> None:
    stream, after = AnswerStream(client, "default", answer_id), "0-0"
    events: list[Any] = []
    while not events or events[-1].type not in ("done", "error"):
        entries = stream.read(after, block_ms=60_000)
        assert entries
        after = entries[-1][0]
        events += [event for _, event in entries]
    done = events[-1]
    assert isinstance(done, DoneEvent)
    assert done.text == TEXT
    written = [event for event in events if isinstance(event, TokenEvent)]
    assert [token for event in written for token in event.ids] == done.ids
    assert "".join(event.text for event in written) == TEXT
    assert tokens.decode(done.ids) == TEXT


def test_killed_and_stopped_workers_lose_nothing(processes: Processes, queue: Queue, client: Any, folder: Path) -> None:
    first = processes.start("first", 0.02)
    tokens = ask(queue, folder, "a1")
    wait_for_ids(client, "a1", 10)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert client.hgetall(keys.RUNNING) == {"rag.generate_answer default a1": "first"}
    client.zrem(keys.WORKERS, "first")  # as if it had been silent for long
    second = processes.start("second", 0.02)
    check_answer(client, "a1", tokens)

    ask(queue, folder, "a2")
    wait_for_ids(client, "a2", 5)
    second.send_signal(signal.SIGTERM)
    assert second.wait(30) == 0
    assert queue.depth() == 1
    assert queue.workers() == []
    assert client.hgetall(keys.RUNNING) == {}
    record = AnswerStream(client, "default", "a2").record()
    assert record is not None
    assert record["status"] == "running"


def test_what_the_api_imports_loads_no_model_code() -> None:
    light = "broker.app broker.messages broker.embedded_redis sessions.queue sessions.streams sessions.sessions "
    light += "tokens.tokenizer"
    modules = ", ".join(f"workers.{name}" for name in light.split())
    heavy = "torch", "transformers", "decoder", "retriever"
    code = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_heartbeat_begins_and_ends_with_its_worker(queue: Queue, client: Any) -> None:
    beaten = threading.Event()
    heartbeat = Heartbeat(client, "w", lambda: {"model": "m"}, after_beat=beaten.set, interval_s=0.01)
    assert not queue.workers()
    heartbeat.start()
    assert beaten.wait(20)
    assert queue.workers() == [{"name": "w", "model": "m"}]
    heartbeat.stop()
    heartbeat.stop()
    assert not queue.workers()
    assert client.hgetall(keys.WORKER_INFO) == {}


def test_a_worker_whose_engine_ended_is_silent(queue: Queue, client: Any) -> None:
    asked = threading.Event()

    def alive() -> bool:
        asked.set()
        return False

    heartbeat = Heartbeat(client, "w", dict, alive, interval_s=0.01)
    heartbeat.start()
    assert asked.wait(20)
    heartbeat.stop()
    assert not client.exists(keys.WORKERS)


def test_a_heartbeat_outlives_an_absent_redis(dead_url: str) -> None:
    beats = threading.Semaphore(0)

    def alive() -> bool:
        beats.release()
        return True

    client = make_redis(dead_url)
    heartbeat = Heartbeat(client, "w", dict, alive, interval_s=0.01)
    heartbeat.start()
    for _ in range(3):
        assert beats.acquire(timeout=20)
    heartbeat.stop()
    client.close()


def test_only_tasks_of_silent_workers_are_taken_up(client: Any, redis_url: str, queue: Queue) -> None:
    app = make_app(redis_url)
    now = client.time()[0]
    client.zadd(keys.WORKERS, {"alive": now, "silent": now - 60})
    client.hset(
        keys.RUNNING,
        mapping={
            "rag.generate_answer t a b": "silent",
            "rag.generate_answer t j": "unheard",
            "rag.generate_answer t c": "alive",
        },
    )
    leases = Leases(client, "me")
    with leases.hold("rag.generate_answer", "t", "mine") as ours:
        assert ours
        with leases.hold("rag.generate_answer", "t", "mine") as again:
            assert not again
        assert leases.reclaim(app) == 2
        assert leases.reclaim(app) == 0
        assert queue.depth() == 2
        assert client.hgetall(keys.RUNNING) == {
            "rag.generate_answer t c": "alive",
            "rag.generate_answer t mine": "me",
        }
    assert client.hgetall(keys.RUNNING) == {"rag.generate_answer t c": "alive"}
    app.close()


def test_a_lease_needs_redis(dead_url: str) -> None:
    client = make_redis(dead_url)
    leases = Leases(client, "me")
    for _ in range(2):  # a failed hold leaves nothing held
        with pytest.raises(QueueUnavailable), leases.hold("t", "x", "y"):
            pass
    client.close()
