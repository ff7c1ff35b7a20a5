"""An empty Redis for every test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis


@pytest.fixture(scope="package")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def redis_url(_server: str) -> str:
    with closing(make_redis(_server)) as client:
        client.flushall()
    return _server
