"""A real server for these tests, one private Redis a run, emptied before each test that asks for it; real workers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, save_tokenizer
from workers.broker.app import make_app, make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.ingests.files import JobFiles
from workers.ingests.queue import IngestQueue
from workers.ingests.redis_ledger import RedisJobLedger
from workers.sessions.queue import Queue
from workers.tokens.tokenizer import Tokens


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def redis_url(redis_server: str) -> str:
    client = make_redis(redis_server)
    client.flushall()
    client.close()
    return redis_server


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    client = make_redis(redis_url)
    yield client
    client.close()


@pytest.fixture
def queue(redis_url: str, client: Any) -> Iterator[Queue]:
    app = make_app(redis_url)
    yield Queue(app, client)
    app.close()


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    """Where accepted ingests wait."""
    return tmp_path / "uploads"


@pytest.fixture
def ingests(redis_url: str, client: Any, uploads: Path) -> Iterator[IngestQueue]:
    app = make_app(redis_url)
    yield IngestQueue(app, client, RedisJobLedger(client, JobFiles(uploads)))
    app.close()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(save_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture
def work(redis_url: str, tokens: Tokens, uploads: Path) -> Iterator[Callable[..., Any]]:
    """Starts a worker with a given engine; stops it at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(engine: FakeEngine, **options: Any) -> Any:
            place = make_worker_context(redis_url, tokens, engine, **{"uploads_dir": uploads, **options})
            stack.enter_context(running_worker(redis_url, place))
            return place

        yield start


@pytest.fixture
def dead_url(tmp_path: Path) -> str:
    """Where no server listens."""
    return f"unix://{tmp_path / 'nobody.sock'}"
