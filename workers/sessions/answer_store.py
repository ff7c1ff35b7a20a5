"""AnswerStore: earlier answers of a tenant's collection, as copy sources for later ones. Off by default.

Questions recur, and their answers resemble the earlier ones (retrieval-based speculation, REST, He et al. 2024). Copies
are verified like any draft, so a store can only save time; it never changes an answer.

Knows Redis and ids; knows no engine. A store belongs to one tenant, collection and tokenizer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from workers.broker import keys
from workers.broker.app import RedisClient
from workers.errors import unavailable


class AnswerStore:
    """The stores of all tenants. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
        most_tokens: approximate size of a store in tokens; the oldest answers are evicted first. 0 turns it off.
        ttl_s: seconds after its last answer at which a store expires.
    """

    def __init__(self, client: RedisClient, most_tokens: int, ttl_s: int) -> None:
        self._redis = client
        self._most_tokens = most_tokens
        self._ttl_s = ttl_s

    def add(self, tenant: str, name: str, answer_id: str, ids: Sequence[int]) -> None:
        """Store an answer's ids.

        Args:
            name: of the store, from `store_name`.
        """
        if not self._most_tokens or not ids:
            return
        answers, order = keys.store_answers(tenant, name), keys.store_order(tenant, name)
        with unavailable(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(answers, answer_id, json.dumps(list(ids), separators=(",", ":")))
            pipe.zadd(order, {answer_id: time.time()})
            pipe.sadd(keys.stores(tenant), name)
            for key in (answers, order):
                pipe.expire(key, self._ttl_s)
            pipe.execute()

    def read(self, tenant: str, name: str) -> list[tuple[str, list[int]]]:
        """(answer id, ids) of the latest answers that fit, the latest first; the rest are deleted."""
        if not self._most_tokens:
            return []
        answers, order = keys.store_answers(tenant, name), keys.store_order(tenant, name)
        with unavailable():
            names = [str(answer_id) for answer_id in self._redis.zrange(order, 0, -1, desc=True)]
            texts = self._redis.hmget(answers, names) if names else []
            fitting: list[tuple[str, list[int]]] = []
            room = self._most_tokens
            for answer_id, text in zip(names, texts, strict=True):
                ids = json.loads(text) if text else []
                room -= len(ids)
                if room < 0:
                    break
                fitting.append((answer_id, ids))
            dropped = names[len(fitting) :]
            if dropped:
                self._redis.hdel(answers, *dropped)
                self._redis.zrem(order, *dropped)
        return [(answer_id, ids) for answer_id, ids in fitting if ids]


def erase_answers(client: RedisClient, tenant: str, answer_ids: Iterable[str]) -> None:
    """Delete answers from every store of a tenant."""
    erased = list(answer_ids)
    if not erased:
        return
    with unavailable():
        for name in client.smembers(keys.stores(tenant)):
            client.hdel(keys.store_answers(tenant, str(name)), *erased)
            client.zrem(keys.store_order(tenant, str(name)), *erased)


def erase_collection(client: RedisClient, tenant: str, collection: str) -> None:
    """Delete the stores of a collection, alone and with others, for all tokenizers."""
    with unavailable():
        for name in [str(member) for member in client.smembers(keys.stores(tenant))]:
            if collection in name.partition(":")[2].split(","):
                client.delete(keys.store_answers(tenant, name), keys.store_order(tenant, name))
                client.srem(keys.stores(tenant), name)


def store_name(collection: str | None, tokenizer: str) -> str:
    """Name of the store of a collection's answers in one tokenizer's ids; of several, with commas between them."""
    return f"{tokenizer}:{collection or ''}"
