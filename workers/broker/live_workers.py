"""The workers that are alive, by their heartbeats."""

from __future__ import annotations

from typing import Any

from workers.broker import keys, wire
from workers.broker.app import RedisClient

ALIVE_S = 15
"""Seconds of silence after which a worker counts as gone."""


def live_workers(client: RedisClient) -> list[dict[str, Any]]:
    """Information from each live worker: name, model, tokenizer (its hash), window, drafter, embedder."""
    now, _ = client.time()
    names = client.zrange(keys.WORKERS, now - ALIVE_S, "+inf", byscore=True)
    texts = client.hmget(keys.WORKER_INFO, names) if names else []
    return [{"name": name, **(wire.load_any(text) or {})} for name, text in zip(names, texts, strict=True)]
