"""What a worker reads while Redis goes and comes back."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue as KombuQueue

from workers.broker import keys
from workers.broker.app import GENERATE_QUEUE, make_app
from workers.broker.embedded_redis import EmbeddedRedis


def send(app: Any) -> None:
    app.send_task(keys.GENERATE_TASK, args=["default", "a"], task_id=uuid.uuid4().hex, retry=False)


@pytest.mark.parametrize("end", ["ack", "reject", "requeue"])
def test_a_message_that_cannot_be_given_back_takes_no_place(tmp_path: Path, end: str) -> None:
    """With kombu's own transport the consumer waits for ever here: the place for its one message is lost."""
    with EmbeddedRedis(tmp_path) as server:
        app = make_app(server.url)
        with app.connection_for_read() as connection:
            received: list[Any] = []
            consumer = app.amqp.TaskConsumer(connection, queues=[KombuQueue(GENERATE_QUEUE)], accept=["json"])
            consumer.register_callback(lambda body, message: received.append(message))
            consumer.qos(prefetch_count=1)
            send(app)
            send(app)
            with consumer:
                while not received:
                    connection.drain_events(timeout=20)
                assert not consumer.channel.qos.can_consume()
                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)
                server.stop()
                with pytest.raises(connection.connection_errors):
                    getattr(received[0], end)()
                server.start()
                send(app)  # not before: a busy disk lets Redis write its file up to two seconds late
                while len(received) < 2:
                    try:
                        connection.drain_events(timeout=20)
                    except TimeoutError:
                        raise AssertionError("it reads nothing any more") from None
                    except connection.connection_errors:
                        pass  # it finds that its connection is dead, and connects anew
        app.close()
