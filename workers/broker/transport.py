"""Celery's transport for Redis, with one repair. Knows kombu's classes; knows no tasks.

A worker reads as many messages as it has threads, and the next one when it could tell Redis that one of them is done.
kombu 5.7 keeps the place of a message where that fails because Redis is away: once all places are lost so, the worker
reads nothing any more, does not notice that its connection is dead, and says to be well.
"""

from __future__ import annotations

from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis


class QoS(redis.QoS):  # type: ignore[misc]
    """Gives a message's place free also where Redis cannot be told; the next read then finds the dead connection.

    Such a message is delivered again after the visibility timeout; what it names is sent again long before that
    (`leases`, `unfinished`, the ledger of ingests).
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except Exception:
            self._quick_ack(delivery_tag)
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)
        except Exception:
            self._quick_ack(delivery_tag)
            raise


class Channel(redis.Channel):  # type: ignore[misc]
    QoS = QoS


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel


class BrokerConnection(Connection):  # type: ignore[misc]
    def get_transport_cls(self) -> type[Any]:
        return Transport


class Amqp(AMQP):  # type: ignore[misc]
    """For `Celery(amqp=…)`."""

    Connection = BrokerConnection
    BrokerConnection = BrokerConnection
