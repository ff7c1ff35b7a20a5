"""Routes a session's next answer to the worker that has its rows, as long as the answer need not wait there.

Besides the common queue each worker has its own. An answer goes there if the session's last one ran on that worker, and
that worker had a recent heartbeat and has a free place. With every heartbeat a worker moves the messages in other
workers' own queues (of a busy or vanished worker) to the head of the common queue, where any worker takes them. So a
wrong guess costs a second, never an answer.

Knows names of queues and workers; knows no tasks and no engine.
"""

from __future__ import annotations

from workers.broker import keys, lua
from workers.broker.app import GENERATE_QUEUE, RedisClient
from workers.errors import unavailable

HEARD_S = 3
"""Seconds of silence after which nothing is sent to a worker's own queue."""
LISTED_S = 2 * 24 * 3600
"""Seconds for which a queue stays listed after its last message; tasks can return to it for an hour."""


def own_queue(worker: str) -> str:
    """Name of a worker's own queue."""
    return f"{GENERATE_QUEUE}.{worker}"


def home_queue(client: RedisClient, owner: str, session_id: str) -> str:
    """The queue for a session's next answer.

    Raises:
        QueueUnavailable: Redis is away.
    """
    names = [keys.session(owner, session_id), keys.WORKERS, keys.WORKER_INFO, keys.QUEUES]
    worker = lua.run(client, lua.ROUTE, names, [GENERATE_QUEUE, HEARD_S])
    return own_queue(str(worker)) if worker else GENERATE_QUEUE


def share(client: RedisClient, worker: str) -> int:
    """Move messages in the other workers' own queues to the common one. Returns their number.

    Raises:
        QueueUnavailable: Redis is away.
    """
    return int(lua.run(client, lua.SHARE, [keys.QUEUES, GENERATE_QUEUE], [own_queue(worker), LISTED_S]))


def waiting(client: RedisClient) -> int:
    """Number of tasks in all workers' own queues.

    Raises:
        QueueUnavailable: Redis is away.
    """
    with unavailable():
        return sum(int(client.llen(name)) for name in client.zrange(keys.QUEUES, 0, -1))
