"""Connections: the Celery application and Redis clients for one Redis URL.

Knows broker settings and task names; knows no tasks, no engine and no settings files. A URL is
`redis://host:port/0`, `rediss://…` or `unix:///path/to.sock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.broker.keys import GENERATE_TASK

if TYPE_CHECKING:
    from celery import Celery

INGEST_TASK = "rag.ingest_documents"
GENERATE_QUEUE = "generate"
INGEST_QUEUE = "ingest"

RedisClient: TypeAlias = Any
"""A redis.Redis whose replies are str. redis-py types replies as "value or awaitable", so Any is as good."""
AsyncRedisClient: TypeAlias = Any
"""The same for redis.asyncio."""

TIMEOUT_S = 1.0
"""Seconds to wait for a connection or a reply; with one retry, an absent Redis is detected within about two."""
VISIBILITY_TIMEOUT_S = 3600
"""Seconds after which Celery delivers the task of a vanished worker again."""

LAPSE_S = 5
"""Seconds of silence after which other workers take over a worker's tasks: five heartbeats."""


def make_app(redis_url: str) -> Celery:
    """The Celery application: JSON only, acknowledged late, one task ahead at most, no results kept.

    Raises:
        ValueError: the URL has another scheme; the message names those allowed.
    """
    from celery import Celery

    from workers.broker.transport import Amqp

    app = Celery("rag", broker=broker_url(redis_url), amqp=Amqp, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_track_started=False,
        task_publish_retry=False,
        task_default_queue=GENERATE_QUEUE,
        task_create_missing_queues=True,
        task_routes={
            GENERATE_TASK: {"queue": GENERATE_QUEUE},
            INGEST_TASK: {"queue": INGEST_QUEUE},
        },
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # forever: a worker outlives a restart of Redis
        broker_connection_timeout=TIMEOUT_S,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "socket_connect_timeout": TIMEOUT_S,
            "socket_timeout": 5 * TIMEOUT_S,
            "socket_keepalive": True,
        },
    )
    return app


def broker_url(redis_url: str) -> str:
    """The URL in Celery's spelling: unix sockets are `redis+socket://`."""
    parts = urlsplit(redis_url)
    if parts.scheme in ("redis", "rediss"):
        return redis_url
    if parts.scheme == "unix" and parts.path:
        query = f"?{parts.query}" if parts.query else ""
        return f"redis+socket://{parts.path}{query}"
    raise ValueError(
        f"the redis URL must be redis://host:port/0, rediss://… or unix:///path/to.sock, got {redis_url!r}"
    )


def make_redis(redis_url: str, *, decode: bool = True, timeout_s: float = TIMEOUT_S) -> RedisClient:
    """A client whose replies are str (UTF-8). Safe to use from several threads. It connects on first use.

    Args:
        decode: False for replies in bytes.
        timeout_s: seconds to wait for a reply.
    """
    broker_url(redis_url)  # rejects other schemes
    options = {**_options(), "decode_responses": decode, "socket_timeout": timeout_s}
    client: RedisClient = redis.Redis.from_url(redis_url, retry=Retry(NoBackoff(), 1), **options)
    return client


def make_async_redis(redis_url: str) -> AsyncRedisClient:
    """The same for asyncio. It belongs to one event loop; close it with `aclose()`."""
    broker_url(redis_url)
    client: AsyncRedisClient = redis.asyncio.Redis.from_url(redis_url, retry=AsyncRetry(NoBackoff(), 1), **_options())
    return client


def _options() -> dict[str, Any]:
    return {
        "decode_responses": True,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "health_check_interval": 30,
        "max_connections": 2048,
    }
