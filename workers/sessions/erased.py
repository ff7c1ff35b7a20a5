"""What was erased leaves Redis's append-only file too: a worker has the file rewritten soon after.

Redis appends every change to that file, so a deleted text stays in it until it is rewritten. Redis does that by itself
only once the file has doubled.
"""

from __future__ import annotations

import logging

import redis.exceptions

from workers.broker import keys
from workers.broker.app import RedisClient
from workers.errors import unavailable

PAUSE_S = 10
"""Seconds from one rewriting to the next at least; what is erased meanwhile waits."""

log = logging.getLogger(__name__)


def note(client: RedisClient) -> None:
    """Say that something was erased. Raises QueueUnavailable while Redis is away."""
    with unavailable():
        client.set(keys.ERASED, 1)


def rewrite(client: RedisClient) -> bool:
    """Begin to rewrite the file if something was erased since the last time; True if it began.

    A Redis that has no such file, or does not let its clients rewrite it, is left alone. Raises QueueUnavailable.
    """
    with unavailable():
        if not client.exists(keys.ERASED) or not client.set(keys.ERASED_PAUSE, 1, nx=True, ex=PAUSE_S):
            return False
        client.delete(keys.ERASED)  # before it begins: what is erased while it runs needs another one
        try:
            if not int(client.info("persistence").get("aof_enabled", 0)):
                return False
            client.bgrewriteaof()
        except redis.exceptions.NoPermissionError:
            log.info("Redis does not let the worker rewrite its append-only file; erased texts stay in it for a while")
            return False
        except redis.exceptions.ResponseError as error:  # it is being rewritten already
            log.info("the append-only file is not rewritten yet: %s", error)
            client.set(keys.ERASED, 1)
            return False
    return True
