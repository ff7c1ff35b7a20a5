"""Sign-ins: a random token stands for a key for some days, so that a browser need not keep the key.

Redis stores the SHA-256 of each token with the id of its key. A sign-in ends when it expires, when it is ended, and
with its key. Knows Redis and hashes; knows no cookies and no HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from rag_service.access.api_keys import ApiKeys
from rag_service.access.principal import LOCAL, LOCAL_KEY, Principal
from workers.broker import keys
from workers.broker.app import AsyncRedisClient
from workers.errors import unavailable

TOKEN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.([A-Za-z0-9_-]{43})", re.ASCII)
"""Matches a whole token, `TENANT.SECRET`; the secret has 256 random bits."""
DAY_S = 86_400


class SignIns:
    """All sign-ins. Every method raises QueueUnavailable if Redis does not answer.

    Args:
        client: from `make_async_redis`.
        api_keys: with the same client.
        days: how long a sign-in lasts.
    """

    def __init__(self, client: AsyncRedisClient, api_keys: ApiKeys, days: int) -> None:
        self._redis = client
        self._api_keys = api_keys
        self.seconds = days * DAY_S

    async def begin(self, principal: Principal, local_key: str, seconds: int | None = None) -> str:
        """Sign a principal in who just sent a key; returns the token, which is not stored.

        Args:
            local_key: the service's. A sign-in with it ends when the service has another one.
            seconds: how long it lasts, if not the usual time.
        """
        token = f"{principal.tenant}.{secrets.token_urlsafe(32)}"
        stands_for = f"{LOCAL_KEY} {_hash(local_key)}" if principal == LOCAL else principal.key
        with unavailable():
            await self._redis.set(_name(token), stands_for, ex=seconds or self.seconds)
        return token

    async def principal_of(self, token: str, local_key: str) -> Principal | None:
        """The principal who signed in; None if the sign-in has ended or never was."""
        if not TOKEN.fullmatch(token):
            return None
        with unavailable():
            stands_for = await self._redis.get(_name(token))
        if stands_for is None:
            return None
        key_id, _, digest = str(stands_for).partition(" ")
        if key_id == LOCAL_KEY:
            return LOCAL if hmac.compare_digest(digest, _hash(local_key)) else None
        return await self._api_keys.principal_with_id(key_id)

    async def is_first(self, tenant: str, nonce: str, seconds: int) -> bool:
        """Whether the attempt with this nonce at the OpenID provider signs somebody in for the first time.

        Args:
            seconds: for which it could be replayed.
        """
        with unavailable():
            return bool(await self._redis.set(keys.sign_in_attempt(tenant, _hash(nonce)), "", ex=seconds, nx=True))

    async def end(self, token: str) -> None:
        """End a sign-in, if it is one."""
        if TOKEN.fullmatch(token):
            with unavailable():
                await self._redis.delete(_name(token))


def _name(token: str) -> str:
    """The key in Redis of a token that matches TOKEN."""
    tenant = token.partition(".")[0]
    return keys.sign_in(tenant, _hash(token))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
