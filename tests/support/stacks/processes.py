"""A stack of real processes for tests that kill them: Redis, a worker and the API, each to be killed at any moment.

Worker and API come from a fork server that has read the packages, so a new one is there within a second. The worker's
engine speaks from a script and its embedder hashes; Celery, Redis, SQLite, files and HTTP are the real ones.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType

import httpx

from tests.support.fake_workers import save_tokenizer
from tests.support.stacks.fork_server import fork_server
from workers.broker.embedded_redis import EmbeddedRedis

WINDOW = 1200


def end_with_the_tests() -> None:
    """The fork server ends with them, and this process with the fork server."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)


def run_worker(redis_url: str, data_dir: Path, name: str) -> None:
    end_with_the_tests()
    from retriever import Library
    from tests.support.fake_workers import FakeEngine, make_worker_context
    from tests.support.hash_embedder import HashEmbedder
    from workers.broker.app import make_app
    from workers.tokens.tokenizer import Tokens
    from workers.worker.main import serve

    tokens = Tokens.load(data_dir / "tokenizer")
    engine = FakeEngine(tokens, lambda prompt: tokens.encode_content("Nothing.").ids, window=WINDOW)
    library = Library(data_dir, HashEmbedder())
    place = make_worker_context(redis_url, tokens, engine, library, data_dir / "uploads", name, lapse_s=2)
    serve(make_app(redis_url), place, {"model": "fake", "tokenizer": tokens.hash}, concurrency=2)


def run_api(redis_url: str, data_dir: Path, descriptor: int) -> None:
    end_with_the_tests()
    import uvicorn

    from rag_service.answering.pipeline import Pipeline
    from rag_service.main import create_app
    from rag_service.settings import Settings
    from tests.support.hash_embedder import HashEmbedder
    from workers.tokens.tokenizer import Tokens

    settings = Settings(_env_file=None, data_dir=data_dir, open_without_key=True)  # type: ignore[call-arg]
    tokens = Tokens.load(data_dir / "tokenizer")
    pipeline = Pipeline(settings, redis_url, embedder=HashEmbedder(), tokens=tokens, window=WINDOW)
    config = uvicorn.Config(create_app(pipeline=pipeline), log_level="critical", fd=descriptor)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


class Processes:
    """A context manager; `kill` ends one of `worker`, `api`, `redis` as a crash would, and starts it anew."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        save_tokenizer(data_dir / "tokenizer")
        self._redis = EmbeddedRedis(data_dir / "redis")
        self._bound = socket.socket()
        self._bound.bind(("127.0.0.1", 0))
        self._bound.listen(128)
        self._bound.set_inheritable(True)
        self.url = f"http://127.0.0.1:{self._bound.getsockname()[1]}"
        self._context = fork_server()
        self._running: dict[str, ForkServerProcess] = {}
        self._workers = 0

    def __enter__(self) -> Processes:
        self._redis.start()
        self._start("worker")
        self._start("api")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
            process.join()
        self._bound.close()
        self._redis.stop()

    def kill(self, name: str) -> None:
        if name == "redis":
            assert self._redis.pid is not None
            os.kill(self._redis.pid, signal.SIGKILL)
            self._redis.stop()
            self._redis.start()
            return
        process = self._running.pop(name)
        process.kill()
        process.join()
        self._start(name)

    def _start(self, name: str) -> None:
        if name == "worker":
            self._workers += 1
            arguments = (self._redis.url, self.data_dir, f"worker-{self._workers}")
            process = self._context.Process(target=run_worker, args=arguments)
        else:
            process = self._context.Process(target=_api, args=(self._redis.url, self.data_dir, self._bound))
        process.start()
        self._running[name] = process

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=20.0)


def _api(redis_url: str, data_dir: Path, bound: socket.socket) -> None:
    run_api(redis_url, data_dir, bound.detach())
