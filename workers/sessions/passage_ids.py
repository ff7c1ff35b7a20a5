"""Token ids of passages, kept by content: one is tokenized once a tenant, at its ingest, whichever session and worker
meets it next.

In this process the latest are at hand; beside it a hash in Redis has them as int32, so a worker that was just started,
or never saw a passage, reads it instead of tokenizing it. It is a cache: the oldest leave, all of them are forgotten
when documents of the tenant are deleted, and without Redis passages are tokenized as ever.

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
from workers.sessions.token_log import ID_BYTES, pack, unpack

log = logging.getLogger(__name__)

MOST_PASSAGES = 8192
"""Kept in Redis for a tenant; about 1 KB each."""
MOST_TOKENS = 2_000_000
"""At hand in this process."""
TTL_S = 7 * 24 * 3600
"""After the last passage that was added, a tenant's are forgotten."""


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class ContentTokens(Protocol):
    """What this module asks of `workers.tokens.tokenizer.Tokens`."""

    @property
    def hash(self) -> str: ...

    def encode_content(self, text: str) -> _Encoding: ...


class PassageIds:
    """Safe to use from several threads.

    Args:
        client: from `make_redis`; None keeps ids in this process alone.
        tokens: the model's tokenizer.
        most_passages: kept in Redis for each tenant; the oldest leave first.
    """

    def __init__(self, client: RedisClient | None, tokens: ContentTokens, most_passages: int = MOST_PASSAGES) -> None:
        self._redis = client
        self._tokens = tokens
        self.most_passages = most_passages
        self._at_hand: OrderedDict[tuple[str, str], list[int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of_job(self, job: GenerateJob) -> dict[str, list[int]]:
        """Ids of the texts of a job's passages, in its prompt and not."""
        shown = [segment.text for segment in job.segments if segment.kind == "passage" and segment.ids is None]
        return self.of(job.tenant, [*shown, *(passage["text"] for passage in job.unread)])

    def of(self, tenant: str, texts: Iterable[str]) -> dict[str, list[int]]:
        """Ids of each text, as `Tokens.encode_content` gives them. Shared between callers: do not change them.

        One read of Redis for all that are not at hand, one write for those that were nowhere.
        """
        names = {text: self._name(text) for text in texts}
        found = {text: ids for text, name in names.items() if (ids := self._known(tenant, name)) is not None}
        missing = [text for text in names if text not in found]
        if not missing:
            return found
        stored = self._read(tenant, [names[text] for text in missing])
        new: dict[str, list[int]] = {}
        for text, data in zip(missing, stored, strict=True):
            if data is None or len(data) % ID_BYTES:
                new[names[text]] = found[text] = self._tokens.encode_content(text).ids
            else:
                found[text] = unpack(data)
            self._keep(tenant, names[text], found[text])
        self._write(tenant, new)
        return found

    def forget(self, tenant: str) -> None:
        """Forget what Redis keeps of a tenant's. Raises QueueUnavailable while Redis is away."""
        if self._redis is not None:
            forget_passages(self._redis, tenant)

    def _name(self, text: str) -> str:
        """Of a text in this tokenizer's ids."""
        return f"{self._tokens.hash}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"

    def _known(self, tenant: str, name: str) -> list[int] | None:
        with self._lock:
            if (tenant, name) in self._at_hand:
                self._at_hand.move_to_end((tenant, name))
            return self._at_hand.get((tenant, name))

    def _keep(self, tenant: str, name: str, ids: list[int]) -> None:
        with self._lock:
            if (tenant, name) not in self._at_hand:
                self._at_hand[tenant, name] = ids
                self._size += len(ids)
            while self._size > MOST_TOKENS and len(self._at_hand) > 1:
                self._size -= len(self._at_hand.popitem(last=False)[1])

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
            log.info("ids of %d passages are not kept: Redis is away", len(new))


def forget_passages(client: RedisClient, tenant: str) -> None:
    """Forget all of a tenant's, as some of its documents are gone. Raises QueueUnavailable while Redis is away."""
    with unavailable():
        client.delete(keys.passage_ids(tenant), keys.passage_order(tenant))
