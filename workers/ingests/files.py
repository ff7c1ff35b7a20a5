"""Accepted ingest jobs on disk: a folder a job, with its uploaded files and the job itself as `job.json`.

So a job survives the loss of Redis, which has its state. Knows folders and files; knows no Redis.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

from workers.broker import wire
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import JobProgress

log = logging.getLogger(__name__)

FILE_NAME = "job.json"
ENDED_NAME = "ended.json"
"""The last progress of a job that has ended."""
ABANDONED_S = 6 * 3600
"""Seconds after which the folder of an interrupted upload is removed."""


class JobFiles:
    """The folders of accepted jobs.

    Args:
        folder: contains one folder a job, named by its id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, job_id: str) -> Path:
        """The folder of a job's files."""
        return self.folder / job_id

    def keep(self, job: IngestJob) -> None:
        """Write the job into the folder of its files, and wait until all of it is on the disk.

        Raises:
            OSError: it cannot be written; then there is no `job.json`.
        """
        folder = self.of(job.job_id)
        folder.mkdir(parents=True, exist_ok=True)
        stored = job.model_copy(update={"files": [self._stored(file, folder) for file in job.files]})
        for upload in stored.files:
            if upload.path is not None and not Path(upload.path).is_absolute():
                sync(folder / upload.path)
        _write(folder / FILE_NAME, wire.dumps(stored))
        sync(self.folder)

    def end(self, job_id: str, progress: JobProgress) -> None:
        """Write a job's last progress, and delete its uploads. Errors are logged: the ledger has the progress too."""
        folder = self.of(job_id)
        try:
            if folder.is_dir():
                _write(folder / ENDED_NAME, wire.dumps(progress))
                for entry in folder.iterdir():
                    if entry.name not in (FILE_NAME, ENDED_NAME):
                        entry.unlink()
        except OSError as error:
            log.warning("the end of ingest %s cannot be written to %s: %s", job_id, folder, error)

    def ended(self, job_id: str) -> tuple[JobProgress, float] | None:
        """A job's last progress and its age in seconds; None if the job has not ended."""
        path = self.of(job_id) / ENDED_NAME
        try:
            return wire.loads(JobProgress, path.read_text(encoding="utf-8")), time.time() - path.stat().st_mtime
        except (OSError, ValueError):
            return None

    def load(self, job_id: str) -> IngestJob | None:
        """The job; None if it does not exist, or is damaged.

        Raises:
            OSError: it cannot be read now; perhaps later, or by another worker.
        """
        try:
            job = wire.loads(IngestJob, (self.of(job_id) / FILE_NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise  # the whole folder is missing, so the disk is at fault, not this job
            return None
        except ValueError:
            log.exception("the ingest job %s is damaged", job_id)
            return None
        return job.model_copy(update={"files": [self._absolute(file, self.of(job_id)) for file in job.files]})

    def drop(self, job_id: str) -> None:
        """Remove a job's folder. Errors are only logged."""
        folder = self.of(job_id)
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("the upload %s cannot be deleted: %s", folder, error)

    def ids(self) -> list[str]:
        """Ids of the jobs on disk, the first accepted first. Removes folders that never became a job."""
        jobs: list[tuple[float, str]] = []
        try:
            with os.scandir(self.folder) as scan:
                folders = [entry for entry in scan if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        for entry in folders:
            try:
                jobs.append((os.stat(Path(entry.path) / FILE_NAME).st_mtime, entry.name))
            except FileNotFoundError:
                try:
                    if time.time() - entry.stat().st_mtime > ABANDONED_S:
                        self.drop(entry.name)
                except OSError:  # removed meanwhile
                    continue
        return [job_id for _, job_id in sorted(jobs)]

    def _stored(self, file: IngestFile, folder: Path) -> IngestFile:
        """The file with a path relative to the job's folder, if it is in it: the data folder may be moved."""
        path = Path(file.path or "")
        if path.parent.name != folder.name or not (folder / path.name).is_file():
            return file
        return file.model_copy(update={"path": path.name})

    def _absolute(self, file: IngestFile, folder: Path) -> IngestFile:
        if file.path is None or Path(file.path).is_absolute():
            return file
        return file.model_copy(update={"path": str(folder / file.path)})


def _write(path: Path, text: str) -> None:
    """Write a file atomically, and wait until it is on the disk."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
