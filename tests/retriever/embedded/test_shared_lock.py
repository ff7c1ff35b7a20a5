"""Readers share the lock; a writer has it alone and is not starved."""

from __future__ import annotations

import threading

from retriever.embedded.shared_lock import SharedLock

WAIT = 20.0


def test_readers_are_inside_together() -> None:
    lock, both = SharedLock(), threading.Barrier(2, timeout=WAIT)

    def read() -> None:
        with lock.shared():
            both.wait()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not both.broken


def test_a_writer_waits_for_readers_and_is_alone() -> None:
    lock, inside, order = SharedLock(), threading.Event(), list[str]()

    def write() -> None:
        with lock.alone():
            inside.set()
            order.append("written")

    with lock.shared():
        writer = threading.Thread(target=write)
        writer.start()
        assert not inside.wait(0.05)
        order.append("read")
    writer.join(WAIT)
    assert order == ["read", "written"]


def test_writers_are_alone() -> None:
    lock, inside, most = SharedLock(), list[int](), [0]

    def write() -> None:
        for _ in range(200):
            with lock.alone():
                inside.append(1)
                most[0] = max(most[0], len(inside))
                inside.pop()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert most == [1]
    with lock.shared():
        pass
