"""What questions were rewritten to, in Redis: asked again in the same conversation, they are not rewritten again.

The last one of a session lies in the session's own hash, so that it is counted, expires and is erased with it. Those of
conversations that clients keep expire by themselves. Knows keys and digests; knows no prompts.
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
        ttl_s: seconds for which those outside sessions are kept.
    """

    def __init__(self, client: AsyncRedisClient, ttl_s: int) -> None:
        self._redis: Any = client
        self._ttl_s = ttl_s

    async def get(self, owner: str, session_id: str, digest: str) -> str | None:
        """What was kept; None for nothing.

        Args:
            session_id: "" outside sessions.
            digest: of the question in its conversation.
        """
        with unavailable():
            if not session_id:
                found = await self._redis.get(keys.rewrite(owner, digest))
                return None if found is None else str(found)
            kept, text = await self._redis.hmget(keys.session(owner, session_id), "rewrite_of", "rewrite")
        return str(text) if kept == digest and text is not None else None

    async def put(self, owner: str, session_id: str, digest: str, text: str) -> None:
        """Keep one, in place of the session's last; nothing of a session that is not there any more."""
        with unavailable():
            if session_id:
                script = self._redis.register_script(lua.REMEMBER)
                await script(keys=[keys.session(owner, session_id)], args=[digest, text])
            else:
                await self._redis.set(keys.rewrite(owner, digest), text, ex=self._ttl_s)
