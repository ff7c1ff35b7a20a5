"""Celery's transport for Redis, with one repair. Knows kombu's classes; knows no tasks.

A worker reads as many messages as it has threads, and the next one after it has acknowledged one of them to Redis. If
that fails because Redis is away, kombu 5.7 keeps the message's place occupied. Once all places are lost that way, the
worker reads no more messages, does not detect that its connection is dead, and reports to be healthy.
"""

from __future__ import annotations

from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis


class QoS(redis.QoS):  # type: ignore[misc]
    """Frees a message's place even if Redis is away; the next read then detects the dead connection.

    Such a message is delivered again after the visibility timeout; its answer or job is sent again long before that
    (`leases`, `unfinished`, the ingest ledger).
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
