"""The ledger of ingest jobs in Redis and on disk: what one of the two has forgotten, or has not been told yet."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.storage.ledgers import OpenedRedis
from workers.broker import keys
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress
from workers.ingests.files import JobFiles
from workers.ingests.ledger import JobClaim
from workers.ingests.redis_ledger import RedisJobLedger

BEGAN = time.time()


@pytest.fixture
def redis_opened(redis_server: str) -> Iterator[OpenedRedis]:
    opened = OpenedRedis(redis_server)
    yield opened
    opened.close()


def job(job_id: str, tenant: str = "one", collection: str = "a") -> IngestJob:
    files = [IngestFile(name="n", text="t")]
    return IngestJob(job_id=job_id, tenant=tenant, collection=collection, files=files, created=BEGAN)


def test_an_end_that_redis_forgot_is_not_done_twice(redis_opened: OpenedRedis) -> None:
    redis_opened.ledger.add(job("j"))
    before = redis_opened.client.dump(keys.job("one", "j"))
    claim = redis_opened.ledger.take("w")
    assert claim is not None
    ended = JobProgress(job_id="j", status="succeeded", done=1, total=1)
    assert claim.end(ended)
    redis_opened.client.restore(keys.job("one", "j"), 0, before, replace=True)
    redis_opened.client.rpush(keys.jobs_waiting("one"), "j")
    assert redis_opened.ledger.take("w") is None
    assert redis_opened.ledger.job("one", "j") == ended


def test_a_session_called_job_keeps_no_ledger_from_recovering(redis_opened: OpenedRedis) -> None:
    redis_opened.client.hset(keys.session_texts("default", "job"), "digest", "text")
    redis_opened.client.hset(keys.session("default@ann", "job"), "created", 1)
    redis_opened.ledger.add(job("j"))
    redis_opened.forget()
    redis_opened.client.hset(keys.session_texts("default", "job"), "digest", "text")
    assert redis_opened.ledger.recover() == 1


def test_a_job_that_cannot_be_read_now_waits_with_its_files(
    redis_opened: OpenedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_opened.ledger.add(job("j"))
    redis_opened.ledger.add(job("behind"))
    redis_opened.ledger.add(job("elsewhere", collection="b"))
    (redis_opened.folder / "j" / "upload").write_text("text")
    read = Path.read_text

    def fails(path: Path, *args: Any, **options: Any) -> str:
        if path.parent.name == "j":
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fails)
        claim = redis_opened.ledger.take("w")
        assert claim is not None
        assert claim.job.job_id == "elsewhere", "another collection's does not wait for it"
        claim.end(JobProgress(job_id="elsewhere", status="succeeded"))
        assert redis_opened.ledger.take("w") is None
    assert (redis_opened.folder / "j" / "upload").is_file()
    elsewhere = redis_opened.folder.rename(redis_opened.folder.with_name("elsewhere"))
    assert redis_opened.ledger.take("w") is None, "the folder of all uploads is not there: not what happens to one job"
    elsewhere.rename(redis_opened.folder)
    claim = redis_opened.ledger.take("w")
    assert claim is not None
    assert (claim.job.job_id, claim.attempts) == ("j", 1)


def test_a_job_that_ends_while_the_ledger_is_read_has_one_end(
    redis_opened: OpenedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end was written to disk again, so its files stayed longer than they had to."""
    redis_opened.ledger.add(job("j"))
    claims: list[JobClaim | None] = [redis_opened.ledger.take("w")]
    ended = JobProgress(job_id="j", status="succeeded", done=1, total=1)
    end = redis_opened.folder / "j" / "ended.json"
    read_disk, read_redis = JobFiles.ended, RedisJobLedger.job

    def ends() -> None:
        if claims and (claim := claims.pop()) is not None:
            assert claim.end(ended)
            os.utime(end, (0, 0))

    def disk_first(files: JobFiles, job_id: str) -> tuple[JobProgress, float] | None:
        found = read_disk(files, job_id)
        ends()
        return found

    def redis_first(ledger: RedisJobLedger, tenant: str, job_id: str) -> JobProgress | None:
        found = read_redis(ledger, tenant, job_id)
        ends()
        return found

    monkeypatch.setattr(JobFiles, "ended", disk_first)
    monkeypatch.setattr(RedisJobLedger, "job", redis_first)
    assert redis_opened.ledger.recover() == 0
    assert not claims
    assert end.stat().st_mtime == 0, "whoever did the job has written its end"
    redis_opened.ledger.recover()
    assert not end.parent.exists()
