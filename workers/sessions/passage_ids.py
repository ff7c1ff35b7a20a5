"""Token ids of passages, cached by content: a passage is tokenized once a tenant, at its ingest, for all workers.

This process caches the latest ones; a hash in Redis has them as int32, so a new worker, or one to which a passage is
new, reads its ids instead of tokenizing it. The oldest are evicted, all of a tenant's are deleted with any of its
documents, and without Redis every passage is tokenized.

Knows a tokenizer by its hash and passages by their text; knows no collections, no index and no engine.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from workers.broker import keys
from workers.broker.app import RedisClient
from workers.broker.messages import GenerateJob
from workers.errors import QueueUnavailable, unavailable
from workers.sessions import erased
from workers.sessions.token_log import ID_BYTES, pack, unpack

log = logging.getLogger(__name__)

MOST_PASSAGES = 8192
"""In Redis, for each tenant; about 1 KB each."""
MOST_TOKENS = 2_000_000
"""In this process's cache."""
TTL_S = 7 * 24 * 3600
"""Seconds after the last added passage at which a tenant's passages expire."""


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class ContentTokens(Protocol):
    """The part of `workers.tokens.tokenizer.Tokens` that this module needs."""

    @property
    def hash(self) -> str: ...

    def encode_content(self, text: str) -> _Encoding: ...


class PassageIds:
    """Safe to use from several threads.

    Args:
        client: from `make_redis`; None caches ids in this process only.
        tokens: the model's tokenizer.
        most_passages: limit in Redis for each tenant; the oldest are evicted first.
    """

    def __init__(self, client: RedisClient | None, tokens: ContentTokens, most_passages: int = MOST_PASSAGES) -> None:
        self._redis = client
        self._tokens = tokens
        self.most_passages = most_passages
        self._cache: OrderedDict[tuple[str, str], list[int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of_job(self, job: GenerateJob) -> dict[str, list[int]]:
        """Ids of the texts of a job's passages, whether in its prompt or not."""
        shown = [segment.text for segment in job.segments if segment.kind == "passage" and segment.ids is None]
        return self.of(job.tenant, [*shown, *(passage["text"] for passage in job.unread)])

    def of(self, tenant: str, texts: Iterable[str]) -> dict[str, list[int]]:
        """Ids of each text, as `Tokens.encode_content` gives them. Shared between callers: do not change them.

        Reads Redis once for all texts that are not cached, and writes once for those that are new.
        """
        names = {text: self._name(text) for text in texts}
        ids_of = {text: ids for text, name in names.items() if (ids := self._cached(tenant, name)) is not None}
        missing = [text for text in names if text not in ids_of]
        if not missing:
            return ids_of
        stored = self._read(tenant, [names[text] for text in missing])
        new: dict[str, list[int]] = {}
        for text, data in zip(missing, stored, strict=True):
            if data is None or len(data) % ID_BYTES:
                new[names[text]] = ids_of[text] = self._tokens.encode_content(text).ids
            else:
                ids_of[text] = unpack(data)
            self._keep(tenant, names[text], ids_of[text])
        self._write(tenant, new)
        return ids_of

    def forget(self, tenant: str) -> None:
        """Delete a tenant's passages in Redis. Raises QueueUnavailable while Redis is away."""
        if self._redis is not None:
            forget_passages(self._redis, tenant)

    def _name(self, text: str) -> str:
        """Names a text in this tokenizer's ids."""
        return f"{self._tokens.hash}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"

    def _cached(self, tenant: str, name: str) -> list[int] | None:
        with self._lock:
            if (tenant, name) in self._cache:
                self._cache.move_to_end((tenant, name))
            return self._cache.get((tenant, name))

    def _keep(self, tenant: str, name: str, ids: list[int]) -> None:
        with self._lock:
            if (tenant, name) not in self._cache:
                self._cache[tenant, name] = ids
                self._size += len(ids)
            while self._size > MOST_TOKENS and len(self._cache) > 1:
                self._size -= len(self._cache.popitem(last=False)[1])

    def _read(self, tenant: str, names: Sequence[str]) -> list[bytes | None]:
        nothing: list[bytes | None] = [None] * len(names)
        if self._redis is None:
            return nothing
        try:
            with unavailable():
                reply = self._redis.execute_command("HMGET", keys.passage_ids(tenant), *names, NEVER_DECODE=True)
        except QueueUnavailable:
            return nothing
        return list(reply)

    def _write(self, tenant: str, new: dict[str, list[int]]) -> None:
        if self._redis is None or not new:
            return
        ids, order, now = keys.passage_ids(tenant), keys.passage_order(tenant), time.time()
        try:
            with unavailable(), self._redis.pipeline(transaction=True) as pipe:
                pipe.hset(ids, mapping={name: pack(one) for name, one in new.items()})
                pipe.zadd(order, dict.fromkeys(new, now))
                pipe.expire(ids, TTL_S)
                pipe.expire(order, TTL_S)
                pipe.zcard(order)
                too_many = int(pipe.execute()[-1]) - self.most_passages
                if too_many > 0:
                    oldest = [str(name) for name, _ in self._redis.zpopmin(order, too_many)]
                    self._redis.hdel(ids, *oldest)
        except QueueUnavailable:
            log.info("ids of %d passages are not stored: Redis is away", len(new))


def forget_passages(client: RedisClient, tenant: str) -> None:
    """Delete a tenant's passages, as documents were deleted. Raises QueueUnavailable while Redis is away."""
    with unavailable():
        client.delete(keys.passage_ids(tenant), keys.passage_order(tenant))
    erased.note(client)
