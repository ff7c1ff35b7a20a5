"""Ledgers of ingest jobs as tests open them, in Redis and in PostgreSQL; one of another kind is added to `LEDGERS`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from workers.broker import keys
from workers.broker.app import make_redis
from workers.ingests.database import EVERYONE, SCHEMA
from workers.ingests.files import JobFiles
from workers.ingests.ledger import JobLedger
from workers.ingests.postgres_ledger import PostgresJobLedger
from workers.ingests.redis_ledger import RedisJobLedger


class Opened:
    """A ledger and what tests need beside it: who is heard of, and what the ledger may forget."""

    ledger: JobLedger
    loses: bool
    """Whether `forget` loses what is not on disk."""

    def heard(self, worker: str) -> None:
        raise NotImplementedError

    def silent(self, worker: str) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Redis is empty, and the process starts anew."""
        raise NotImplementedError

    def lose_files(self, job_id: str) -> None:
        """What a job needs is gone."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class OpenedRedis(Opened):
    loses = True

    def __init__(self, redis_url: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.client = make_redis(redis_url)
        self.client.flushall()
        self.ledger = self._open()

    def _open(self) -> JobLedger:
        return RedisJobLedger(self.client, JobFiles(self.folder))

    def heard(self, worker: str) -> None:
        self.client.zadd(keys.WORKERS, {worker: self.client.time()[0]})

    def silent(self, worker: str) -> None:
        self.client.zadd(keys.WORKERS, {worker: self.client.time()[0] - 60})

    def forget(self) -> None:
        workers = self.client.zrange(keys.WORKERS, 0, -1, withscores=True)
        self.client.flushall()
        self.client.zadd(keys.WORKERS, dict(workers) or {"nobody": 0})
        self.ledger = self._open()

    def lose_files(self, job_id: str) -> None:
        shutil.rmtree(self.folder / job_id)

    def close(self) -> None:
        self.client.close()
        shutil.rmtree(self.folder)


class OpenedPostgres(Opened):
    loses = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.opened: list[PostgresJobLedger] = []
        self.folder = Path(tempfile.mkdtemp())
        with psycopg.connect(url) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        self.ledger = self._open()

    def _open(self) -> PostgresJobLedger:
        self.opened.append(PostgresJobLedger(self.url, self.folder, lapse_s=30))
        return self.opened[-1]

    def heard(self, worker: str) -> None:
        self._hear(worker, 0)

    def silent(self, worker: str) -> None:
        self._hear(worker, 60)

    def _hear(self, worker: str, ago: int) -> None:
        self.ledger.available()  # creates the tables
        with seen_by(self.url) as connection:
            connection.execute(
                "INSERT INTO ingest_workers VALUES (%s, now() - make_interval(secs => %s)) "
                "ON CONFLICT (name) DO UPDATE SET heard = excluded.heard",
                (worker, ago),
            )

    def forget(self) -> None:
        self.ledger = self._open()  # claims of the one before go on

    def lose_files(self, job_id: str) -> None:
        with seen_by(self.url) as connection:
            connection.execute("UPDATE ingest_jobs SET request = NULL WHERE id = %s", (job_id,))

    def close(self) -> None:
        for ledger in self.opened:
            ledger.close()
        shutil.rmtree(self.folder)


def seen_by(url: str, tenant: str = EVERYONE) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to the tables of the ledger, as a tenant sees them."""
    return psycopg.connect(url, options=f"-c search_path={SCHEMA} -c app.tenant={tenant}")


LEDGERS: dict[str, tuple[str, Callable[[str], Opened]]] = {
    "redis": ("redis_server", OpenedRedis),
    "postgres": ("postgres_url", OpenedPostgres),
}
"""For each kind, the fixture with the URL of its server, and what opens it."""
