"""API keys: each names a tenant. Redis holds their SHA-256, never the keys.

A key is `rag_ID_SECRET`; the id is public and finds the record, the secret has 256 random bits, so its plain hash is
as hard to turn back as to guess. Knows Redis and hashes; knows no HTTP.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass

from workers import keys
from workers.app import AsyncRedisClient, RedisClient
from workers.errors import unavailable

PREFIX = "rag_"
NAME_CHARS = 100
"""Most characters of a key's name."""
_KEY = re.compile(r"rag_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key.

    Attributes:
        id: public part.
        name: what it is for, as its maker wrote it.
        created: Unix time, seconds.
    """

    id: str
    name: str
    tenant: str
    created: float


class ApiKeys:
    """All keys. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        asynchronous: from `make_async_redis`; needed by `tenant_of` alone.
    """

    def __init__(self, client: RedisClient, asynchronous: AsyncRedisClient | None = None) -> None:
        self._redis = client
        self._async = asynchronous

    def create(self, name: str, tenant: str) -> tuple[ApiKey, str]:
        """A new key: its record, and the key itself, which is kept nowhere.

        Raises:
            ValueError: a name or tenant that is not allowed; the message says what is.
        """
        name = name.strip()
        if not name or len(name) > NAME_CHARS or not name.isprintable():
            raise ValueError(f"the name of a key has 1 to {NAME_CHARS} printable characters")
        if not _TENANT.fullmatch(tenant):
            raise ValueError(
                f"{tenant[:80]!r} is not a tenant: use 1 to 64 letters, digits, '-' or '_', beginning with a letter "
                "or digit"
            )
        made = ApiKey(secrets.token_hex(6), name, tenant, time.time())
        key = f"{PREFIX}{made.id}_{secrets.token_urlsafe(32)}"
        record = {**asdict(made), "sha256": _hash(key)}
        with unavailable():
            self._redis.hset(keys.API_KEYS, made.id, json.dumps(record))
        return made, key

    def list(self) -> builtins.list[ApiKey]:
        """All keys, oldest first."""
        with unavailable():
            texts = self._redis.hvals(keys.API_KEYS)
        return sorted((_record(text)[0] for text in texts), key=lambda key: (key.created, key.id))

    def revoke(self, key_id: str) -> bool:
        """Forget a key; requests with it are refused from now on. False if there is none with this id."""
        with unavailable():
            return bool(self._redis.hdel(keys.API_KEYS, key_id))

    async def tenant_of(self, key: str) -> str | None:
        """The tenant that a key names; None for one that is not valid."""
        shape = _KEY.fullmatch(key)
        if shape is None or self._async is None:
            return None
        with unavailable():
            text = await self._async.hget(keys.API_KEYS, shape[1])
        if text is None:
            return None
        known, digest = _record(text)
        return known.tenant if hmac.compare_digest(digest, _hash(key)) else None


def _record(text: str) -> tuple[ApiKey, str]:
    fields = json.loads(text)
    digest = str(fields.pop("sha256"))
    return ApiKey(**fields), digest


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
