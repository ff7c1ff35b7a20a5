"""API keys: each names a tenant, a person, a role and what it sees. Redis holds their SHA-256, never the keys.

A key's secret has 256 random bits, so its plain hash is as hard to turn back as to guess. Knows Redis and hashes; knows
no HTTP.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rag_service.access.key_form import KEY, new_key
from rag_service.access.principal import NAME, ROLES, Principal, Role
from workers.broker import keys
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.errors import unavailable

NAME_CHARS = 100
"""Most characters of a key's name."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key.

    Attributes:
        id: public part.
        name: what it is for, as its maker wrote it.
        created: Unix time, seconds.
        person: whose sessions and answers it opens; "" for keys of earlier versions, which name nobody.
        role: what it may do.
        collections: the only ones that it sees; None for all.
    """

    id: str
    name: str
    tenant: str
    created: float
    person: str = ""
    role: Role = "editor"
    collections: tuple[str, ...] | None = None

    @property
    def principal(self) -> Principal:
        """Whoever asks with it."""
        seen = None if self.collections is None else frozenset(self.collections)
        return Principal(self.tenant, self.person, self.role, seen)


class ApiKeys:
    """All keys. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        asynchronous: from `make_async_redis`; needed by `principal_of` alone.
    """

    def __init__(self, client: RedisClient, asynchronous: AsyncRedisClient | None = None) -> None:
        self._redis = client
        self._async = asynchronous

    def create(
        self,
        name: str,
        tenant: str,
        *,
        person: str | None = None,
        role: Role = "editor",
        collections: Sequence[str] | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key: its record, and the key itself, which is kept nowhere.

        Args:
            person: made from the name where it is None.

        Raises:
            ValueError: a name, tenant, person, role or collection that is not allowed; the message says what is.
        """
        name = name.strip()
        if not name or len(name) > NAME_CHARS or not name.isprintable():
            raise ValueError(f"the name of a key has 1 to {NAME_CHARS} printable characters")
        if role not in ROLES:
            raise ValueError(f"{str(role)[:80]!r} is not a role: use {', '.join(ROLES)}")
        key_id, key = new_key()
        if person is None:
            person = _person(name) or key_id
            if any(one.person == person and one.name != name and one.tenant == tenant for one in self.list()):
                person = f"{person[:50]}-{key_id}"  # another name, made the same by what ids may hold
        for kind, given in (
            ("tenant", tenant),
            ("person", person),
            *(("collection", one) for one in collections or ()),
        ):
            if not NAME.fullmatch(given):
                raise ValueError(
                    f"{given[:80]!r} is not a {kind}: use 1 to 64 letters, digits, '-' or '_', beginning with a letter "
                    "or digit"
                )
        seen = None if collections is None else tuple(sorted(set(collections)))
        made = ApiKey(key_id, name, tenant, time.time(), person, role, seen)
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

    async def principal_of(self, key: str) -> Principal | None:
        """Whom a key names; None for one that is not valid."""
        shape = KEY.fullmatch(key)
        if shape is None or self._async is None:
            return None
        with unavailable():
            text = await self._async.hget(keys.API_KEYS, shape[1])
        if text is None:
            return None
        known, digest = _record(text)
        return known.principal if hmac.compare_digest(digest, _hash(key)) else None


def _record(text: str) -> tuple[ApiKey, str]:
    fields = json.loads(text)
    digest = str(fields.pop("sha256"))
    if fields.get("collections") is not None:
        fields["collections"] = tuple(fields["collections"])
    return ApiKey(**fields), digest


def _person(name: str) -> str:
    """A key's name as a person's: `the web page` is `the-web-page`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64]


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
