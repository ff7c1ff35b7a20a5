"""Rewritten questions in Redis: a question repeated in the same conversation is not rewritten again.

A session's hash has its last rewrite, which counts, expires and is erased with the session. Rewrites for conversations
that clients keep expire by themselves. Knows keys and digests; knows no prompts.
"""

from __future__ import annotations

from typing import Any

from workers.broker import keys, lua
from workers.broker.app import AsyncRedisClient
from workers.errors import unavailable


class Rewrites:
    """Rewritten questions of all tenants. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_async_redis`.
        ttl_s: lifetime of rewrites outside sessions, in seconds.
    """

    def __init__(self, client: AsyncRedisClient, ttl_s: int) -> None:
        self._redis: Any = client
        self._ttl_s = ttl_s

    async def get(self, owner: str, session_id: str, digest: str) -> str | None:
        """The stored rewrite; None without one.

        Args:
            session_id: "" outside sessions.
            digest: of the question in its conversation.
        """
        with unavailable():
            if not session_id:
                text = await self._redis.get(keys.rewrite(owner, digest))
                return None if text is None else str(text)
            rewrite_of, text = await self._redis.hmget(keys.session(owner, session_id), "rewrite_of", "rewrite")
        return str(text) if rewrite_of == digest and text is not None else None

    async def put(self, owner: str, session_id: str, digest: str, text: str) -> None:
        """Store a rewrite in place of the session's last one; does nothing if the session is gone."""
        with unavailable():
            if session_id:
                script = self._redis.register_script(lua.REMEMBER)
                await script(keys=[keys.session(owner, session_id)], args=[digest, text])
            else:
                await self._redis.set(keys.rewrite(owner, digest), text, ex=self._ttl_s)
