"""A full disk, here or at Redis, is said as such, and nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from rag_service.api.problems import as_problem
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.errors import unavailable

DOCUMENTS = "/v1/collections/animals/documents"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of one megabyte. Skips where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_an_upload_that_finds_the_disk_full(make_client: Any, world: Any, tmp_path: Path) -> None:
    library = world.data_dir
    with small_disk(tmp_path / "uploads") as uploads:
        for entry in library.iterdir():
            if entry.name != "uploads":
                os.symlink(entry, tmp_path / entry.name)
        async with make_client(world.redis_url, tmp_path) as client:
            answer = await client.post(DOCUMENTS, files=[("files", ("a.txt", b"x" * 3_000_000))])
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), answer.text
        assert "Free space" in answer.json()["detail"]
        assert not list(uploads.iterdir())


async def test_redis_out_of_memory_is_said_so(make_client: Any, data_dir: Path, tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server:
        admin = make_redis(server.url)
        async with make_client(server.url, data_dir) as client:
            client.pipeline.queue.workers = lambda: [{"name": "busy elsewhere"}]
            admin.config_set("maxmemory", "1")
            answer = await client.post("/v1/query", json={"question": "What jumps?", "collection": "animals"})
            admin.config_set("maxmemory", "0")
        admin.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "redis_out_of_memory"), answer.text
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "text",
    [
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "MISCONF Errors writing to the AOF file: No space left on device",
    ],
)
def test_redis_that_cannot_write_is_a_full_disk(text: str) -> None:
    with pytest.raises(Exception, match="free space") as caught, unavailable():
        raise redis.exceptions.ResponseError(text)
    problem = as_problem(caught.value)
    assert (problem.status, problem.code) == (507, "storage_full")


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x.sqlite")
    database.execute("PRAGMA max_page_count = 2")
    database.execute("CREATE TABLE x (y)")
    with pytest.raises(sqlite3.OperationalError, match="full") as caught:
        database.execute("INSERT INTO x VALUES (zeroblob(1000000))")
    database.close()
    assert as_problem(caught.value).code == "storage_full"
    assert as_problem(OSError(errno.EDQUOT, "x")).status == 507
