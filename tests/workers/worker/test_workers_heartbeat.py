"""Workers that are gone leave the list: at once where that is known, else after a minute."""

from __future__ import annotations

import time

from workers.broker import keys
from workers.broker.app import make_redis
from workers.worker.heartbeat import Heartbeat, default_name, forget_workers


def test_a_worker_known_to_be_dead_is_forgotten_at_once_and_the_others_stay(redis_url: str) -> None:
    client = make_redis(redis_url)
    dead = default_name(12345)
    client.zadd(keys.WORKERS, {dead: time.time(), "other": time.time()})
    client.hset(keys.WORKER_INFO, mapping={dead: "{}", "other": "{}"})
    forget_workers(redis_url, dead)
    assert client.zrange(keys.WORKERS, 0, -1) == client.hkeys(keys.WORKER_INFO) == ["other"]
    forget_workers(redis_url)
    assert not client.exists(keys.WORKERS, keys.WORKER_INFO)
    client.close()


def test_a_worker_that_was_silent_for_a_minute_is_forgotten_by_the_next_beat(redis_url: str) -> None:
    client = make_redis(redis_url)
    client.zadd(keys.WORKERS, {"silent": time.time() - 61, "slow": time.time() - 30})
    client.hset(keys.WORKER_INFO, mapping={"silent": "{}", "slow": "{}"})
    beat = Heartbeat(client, "me", lambda: {}, interval_s=0.01)
    beat.start()
    while client.zscore(keys.WORKERS, "me") is None:
        pass
    assert sorted(client.hkeys(keys.WORKER_INFO)) == ["me", "slow"]
    beat.stop()
    assert client.hkeys(keys.WORKER_INFO) == ["slow"]
    client.close()


def test_nothing_happens_while_redis_is_away() -> None:
    forget_workers("unix:///nowhere/redis.sock", "me")
