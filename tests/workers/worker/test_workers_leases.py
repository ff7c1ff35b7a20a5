"""Leases of answers: who has a task, against a real Redis."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from workers.broker import keys, lua
from workers.broker.app import make_app
from workers.worker.leases import Leases


def test_a_second_message_is_dropped_while_its_task_runs(client: Any, redis_url: str) -> None:
    app = make_app(redis_url)
    task = ("rag.generate_answer", "t", "a")
    field = " ".join(task)
    client.zadd(keys.WORKERS, {"other": client.time()[0]})
    other, me = Leases(client, "other"), Leases(client, "me")
    with other.hold(*task) as theirs, me.hold(*task) as mine:
        assert theirs
        assert not mine
    with me.hold(*task) as mine:
        assert mine
    client.hset(keys.RUNNING, field, "other")  # it is said to run it, and does not: it lost Redis when it let go
    with me.hold(*task) as mine:
        assert not mine
    assert me.reclaim(app) == 0
    assert other.reclaim(app) == 1
    client.hset(keys.RUNNING, field, "resend other")  # died right before the message was sent
    client.zrem(keys.WORKERS, "other")
    with me.hold(*task) as mine:
        assert mine, "whoever gets the message may run it"
    client.hset(keys.RUNNING, field, "resend other")
    assert me.reclaim(app) == 1
    assert not client.exists(keys.RUNNING)
    app.close()


def test_a_task_taken_while_lapsed_ones_are_looked_for_is_not_sent_again(
    client: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken after `reclaim` noted what this worker runs, and before Redis is asked about the others."""
    app = make_app(redis_url)
    me = Leases(client, "me")
    reached, over = threading.Event(), threading.Event()

    class Lock:
        """Tells who has to wait for it."""

        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                reached.set()
                self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    def take() -> None:
        with me.hold("rag.generate_answer", "t", "a") as mine:
            assert mine
            reached.set()
            over.wait(60)

    taker = threading.Thread(target=take)
    run = lua.run

    def interleaved(redis: Any, script: str, *rest: Any) -> Any:
        if script == lua.RECLAIM:
            taker.start()
            assert reached.wait(60)
        return run(redis, script, *rest)

    monkeypatch.setattr(me, "_lock", Lock())
    monkeypatch.setattr(lua, "run", interleaved)
    sent = me.reclaim(app)
    over.set()
    taker.join(60)
    app.close()
    assert sent == 0
