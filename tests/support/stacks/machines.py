"""A stack over several machines, for tests that kill parts of it: APIs and workers that share no folder.

One PostgreSQL and one Redis; every API and every worker is a process with a data folder of its own. The workers' engine
is a real one with a tiny model in float64, whose answers depend on nothing but the request. What is killed stays dead,
except for the database. Knows processes; knows no documents and no questions.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.support.fake_workers import save_tokenizer
from tests.support.stacks.fork_server import fork_server
from tests.support.stacks.processes import end_with_the_tests
from tests.support.storage.postgres import PostgresServer
from workers.broker.embedded_redis import EmbeddedRedis

if TYPE_CHECKING:
    from rag_service.answering.pipeline import Pipeline
    from workers.worker.tasks import WorkerContext

WINDOW = 2048
LAPSE_S = 2


def save_model(folder: Path, corpus: Sequence[str]) -> Path:
    """A tiny model in float64 whose tokenizer knows the words of the corpus. Returns its folder."""
    from tests.support.tiny_models import tiny_model
    from workers.tokens.tokenizer import Tokens

    save_tokenizer(folder, corpus=corpus, size=1500)
    tiny_model(vocab_size=Tokens.load(folder).vocab_size, window=WINDOW, memory=1.0).save_pretrained(folder)
    return folder


def make_place(redis_url: str, model: Path, data_dir: Path, name: str, store_url: str | None) -> WorkerContext:
    """What a worker works with."""
    from decoder import load_engine
    from retriever import Library, open_stores
    from tests.support.fake_workers import make_worker_context
    from tests.support.hash_embedder import HashEmbedder
    from workers.tokens.tokenizer import Tokens
    from workers.worker.supporter import Supporter

    tokens = Tokens.load(model)
    library = Library(data_dir, HashEmbedder(), stores=open_stores(store_url, data_dir))
    return make_worker_context(
        redis_url,
        tokens,
        load_engine(str(model), drafter="auto", dtype="float64", device="cpu"),
        library,
        data_dir / "uploads",
        name,
        kv_cache_bytes=1 << 26,
        lapse_s=LAPSE_S,
        supporter=Supporter(tokens, "tiny", "float64"),
        store_url=store_url,
    )


def make_pipeline(redis_url: str, model: Path, data_dir: Path, store_url: str | None) -> Pipeline:
    """What an API answers with."""
    from rag_service.answering.pipeline import Pipeline
    from rag_service.settings import Settings
    from tests.support.hash_embedder import HashEmbedder
    from workers.tokens.tokenizer import Tokens

    settings = Settings(  # type: ignore[call-arg]
        _env_file=None,
        data_dir=data_dir,
        open_without_key=True,
        store_url=store_url,
        dtype="float64",
        answers={"min_run": 2},
    )
    return Pipeline(settings, redis_url, embedder=HashEmbedder(), tokens=Tokens.load(model), window=WINDOW)


def run_worker(redis_url: str, model: Path, data_dir: Path, name: str, store_url: str) -> None:
    end_with_the_tests()
    import torch

    from workers.broker.app import make_app
    from workers.worker.main import serve

    torch.set_num_threads(1)
    place = make_place(redis_url, model, data_dir, name, store_url)
    serve(make_app(redis_url), place, {"model": "tiny", "tokenizer": place.tokens.hash}, concurrency=2)


def run_api(redis_url: str, model: Path, data_dir: Path, bound: socket.socket, store_url: str) -> None:
    end_with_the_tests()
    import uvicorn

    from rag_service.main import create_app

    app = create_app(pipeline=make_pipeline(redis_url, model, data_dir, store_url))
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[bound])


class Machines:
    """A context manager, to be entered in the main thread. `apis` are the addresses of the APIs by name."""

    def __init__(self, folder: Path, model: Path, apis: int = 2, workers: int = 3) -> None:
        self.folder = folder
        self.database = PostgresServer()
        self._redis = EmbeddedRedis(folder / "redis")
        self._model = model
        self._names = [f"api-{number}" for number in range(apis)], [f"worker-{number}" for number in range(workers)]
        self._context = fork_server()
        self._running: dict[str, ForkServerProcess] = {}
        self.apis: dict[str, str] = {}

    def __enter__(self) -> Machines:
        self._redis.start()
        self.database.__enter__()
        self.database.execute("CREATE DATABASE rag OWNER rag")
        self.database.execute("CREATE EXTENSION vector", "rag")
        store_url = self.database.url("rag")
        apis, workers = self._names
        for name in workers:
            arguments = (self._redis.url, self._model, self.folder / name, name, store_url)
            self._start(name, self._context.Process(target=run_worker, args=arguments))
        bound = []
        for name in apis:
            listening = socket.create_server(("127.0.0.1", 0), backlog=128)
            bound.append(listening)
            self.apis[name] = f"http://127.0.0.1:{listening.getsockname()[1]}"
            given = (self._redis.url, self._model, self.folder / name, listening, store_url)
            self._start(name, self._context.Process(target=run_api, args=given))
        for name in apis:
            self._await(name)
        for listening in bound:  # from here on, a killed API refuses connections
            listening.close()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.join()
        self.database.__exit__()
        self._redis.stop()

    def kill(self, name: str) -> None:
        """SIGKILL one process, or the database with all of its own, which then starts again."""
        if name == "database":
            self.database.crash()
            self.database.start()
            return
        process = self._running.pop(name)
        process.kill()
        process.join()
        self.apis.pop(name, None)

    @property
    def redis_url(self) -> str:
        return self._redis.url

    def _start(self, name: str, process: ForkServerProcess) -> None:
        process.start()
        self._running[name] = process

    def _await(self, name: str) -> None:
        """Wait until an API is ready, which takes a worker."""
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(base_url=self.apis[name], timeout=60, transport=transport) as client:
            while (ready := client.get("/readyz")).status_code != 200:
                if not all(process.is_alive() for process in self._running.values()):
                    raise RuntimeError(f"a process ended by itself: {ready.text}")
                time.sleep(0.1)
