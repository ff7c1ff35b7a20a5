"""A real server for these tests: one private Redis a run, emptied before each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.app import make_app, make_redis
from workers.embedded_redis import EmbeddedRedis
from workers.queue import Queue


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
def dead_url(tmp_path: Path) -> str:
    """Where no server listens."""
    return f"unix://{tmp_path / 'nobody.sock'}"
