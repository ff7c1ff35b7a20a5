"""API keys: each has a tenant, a person, a role and the collections it can access.

Redis stores the SHA-256 of each key, never the key. A key's secret has 256 random bits, so an unsalted hash is as hard
to invert as the key is to guess. Knows Redis and hashes; knows no HTTP.
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
from rag_service.access.principal import NAME, ROLES, Principal
from rag_service.contract.keys import NAME_CHARS, Role
from workers.broker import keys
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.errors import unavailable


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The record of a key, without its secret.

    Attributes:
        id: the public part of the key.
        name: its purpose, in the words of its creator.
        created: Unix time, seconds.
        person: the owner of its sessions and answers; "" for keys of earlier versions, which have no person.
        role: the actions it allows.
        collections: the only collections it can access; None for all.
        expires: Unix time, seconds, from which on it is not valid; None for never.
        issuer: the OpenID provider whose sign-in it stands for; None for a key that somebody created.
    """

    id: str
    name: str
    tenant: str
    created: float
    person: str = ""
    role: Role = "editor"
    collections: tuple[str, ...] | None = None
    expires: float | None = None
    issuer: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether its time is not over."""
        return self.expires is None or time.time() < self.expires

    @property
    def principal(self) -> Principal:
        """The principal of requests with this key."""
        collections = None if self.collections is None else frozenset(self.collections)
        return Principal(self.tenant, self.person, self.role, collections, self.id)


class ApiKeys:
    """All API keys in Redis. Every method raises QueueUnavailable if Redis does not answer.

    Args:
        client: from `make_redis`.
        asynchronous: from `make_async_redis`; only coroutines need it.
    """

    def __init__(self, client: RedisClient, asynchronous: AsyncRedisClient | None = None) -> None:
        self._redis = client
        self._async = asynchronous

    def prepared(
        self,
        name: str,
        tenant: str,
        *,
        person: str | None = None,
        role: Role = "editor",
        collections: Sequence[str] | None = None,
        expires: float | None = None,
        issuer: str | None = None,
    ) -> tuple[ApiKey, str]:
        """The record of a new key and the key itself, of which nothing is stored yet.

        Args:
            person: derived from the name if None.
            expires, issuer: as in `ApiKey`.

        Raises:
            ValueError: a name, tenant, person, role or collection is not allowed; the message says what is.
        """
        name = name.strip()
        if not name or len(name) > NAME_CHARS or not name.isprintable():
            raise ValueError(f"the name of a key must have 1 to {NAME_CHARS} printable characters")
        if role not in ROLES:
            raise ValueError(f"{str(role)[:80]!r} is not a role: use {', '.join(ROLES)}")
        key_id, key = new_key()
        if person is None:
            person = _person(name) or key_id
            if any(key.person == person and key.name != name and key.tenant == tenant for key in self.list()):
                person = f"{person[:50]}-{key_id}"  # two names can give the same person
        for kind, value in (
            ("tenant", tenant),
            ("person", person),
            *(("collection", collection) for collection in collections or ()),
        ):
            if not NAME.fullmatch(value):
                raise ValueError(
                    f"{value[:80]!r} is not a {kind}: use 1 to 64 letters, digits, '-' or '_', beginning with a letter "
                    "or digit"
                )
        allowed = None if collections is None else tuple(sorted(set(collections)))
        return ApiKey(key_id, name, tenant, time.time(), person, role, allowed, expires, issuer), key

    def add(self, record: ApiKey, key: str) -> None:
        """Store a prepared key; the service then accepts it. Keys whose time is over are deleted, if it has one."""
        fields = asdict(record)
        if record.expires is None:  # earlier versions can read it
            del fields["expires"], fields["issuer"]
        else:
            self._delete_expired()
        with unavailable():
            self._redis.hset(keys.API_KEYS, record.id, json.dumps({**fields, "sha256": _hash(key)}))

    def list(self) -> builtins.list[ApiKey]:
        """All keys that are valid, oldest first."""
        return sorted((key for key in self._all() if key.is_valid), key=lambda key: (key.created, key.id))

    def get(self, key_id: str) -> ApiKey | None:
        """The record of a key; None if no valid key has this id."""
        with unavailable():
            text = self._redis.hget(keys.API_KEYS, key_id)
        record = None if text is None else _record(str(text))[0]
        return record if record is not None and record.is_valid else None

    def revoke(self, key_id: str) -> bool:
        """Delete a key; the service then rejects requests with it. False if no key has this id."""
        with unavailable():
            return bool(self._redis.hdel(keys.API_KEYS, key_id))

    async def principal_with_id(self, key_id: str) -> Principal | None:
        """The principal of the key with this id; None if there is none, or not any more."""
        if self._async is None:
            return None
        with unavailable():
            text = await self._async.hget(keys.API_KEYS, key_id)
        record = None if text is None else _record(str(text))[0]
        return record.principal if record is not None and record.is_valid else None

    async def principal_of(self, key: str) -> Principal | None:
        """The principal of a key; None if the key is not valid."""
        match = KEY.fullmatch(key)
        if match is None or self._async is None:
            return None
        with unavailable():
            text = await self._async.hget(keys.API_KEYS, match[1])
        if text is None:
            return None
        record, digest = _record(text)
        return record.principal if hmac.compare_digest(digest, _hash(key)) and record.is_valid else None

    def _all(self) -> builtins.list[ApiKey]:
        with unavailable():
            texts = self._redis.hvals(keys.API_KEYS)
        return [_record(text)[0] for text in texts]

    def _delete_expired(self) -> None:
        expired = [key.id for key in self._all() if not key.is_valid]
        if expired:
            with unavailable():
                self._redis.hdel(keys.API_KEYS, *expired)


def _record(text: str) -> tuple[ApiKey, str]:
    fields = json.loads(text)
    digest = str(fields.pop("sha256"))
    if fields.get("collections") is not None:
        fields["collections"] = tuple(fields["collections"])
    return ApiKey(**fields), digest


def _person(name: str) -> str:
    """The person of a key's name: `the web page` gives `the-web-page`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64]


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
