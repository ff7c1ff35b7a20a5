"""Opens the ledger of ingest jobs that a stack uses. Knows both kinds and when each is used."""

from __future__ import annotations

from pathlib import Path

from workers.broker.app import LAPSE_S, RedisClient
from workers.ingests.files import JobFiles
from workers.ingests.ledger import JobLedger
from workers.ingests.redis_ledger import RedisJobLedger


def open_ledger(client: RedisClient, folder: Path, store_url: str | None, lapse_s: int = LAPSE_S) -> JobLedger:
    """The ledger in PostgreSQL if there is a `store_url`, else the one in Redis and a folder that all processes share.

    Args:
        client: from `make_redis`.
        folder: of uploads.
        store_url: `postgresql://…`.
        lapse_s: seconds of silence after which other workers take over a worker's jobs.

    Raises:
        ValueError: the packages for PostgreSQL are not installed, or the URL is not one.
    """
    if store_url is None:
        return RedisJobLedger(client, JobFiles(folder), lapse_s)
    try:
        from workers.ingests.postgres_ledger import PostgresJobLedger
    except ImportError as error:
        raise ValueError(
            f"RAG_STORE_URL needs a package that is missing ({error}); "
            "run `pip install -e '.[postgres]'` in the project's folder"
        ) from error
    return PostgresJobLedger(store_url, folder, lapse_s)
