"""The data folder: private to this user, and used by one `rag up` at a time.

Knows names and permissions; knows no contents.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from rag_service.access import running
from rag_service.cli.console import CliError

LOCK = "up.lock"
_OURS = ("collections", "tenants", "uploads", "redis", "logs", "learned", "key", "run.json", LOCK)
"""Our files and folders in it. Anything else is the user's and stays as it is."""


def keep_private(data_dir: Path) -> None:
    """Create the folder if needed, and make it and everything this process writes private to this user.

    The permissions of an existing folder, and of our entries in it, are tightened if they belong to this user. Deeper
    levels need no change: nobody else gets past the folder. A folder of another user, such as a shared one, stays as it
    is. A folder that cannot be created is no error here: some workers do not need it.
    """
    os.umask(0o077)
    with contextlib.suppress(OSError):
        data_dir.mkdir(parents=True, exist_ok=True)
    for path in (data_dir, *(data_dir / name for name in _OURS)):
        with contextlib.suppress(OSError):  # not there, or not ours
            status = path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            if status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode) and mode & 0o077:
                path.chmod(mode & 0o700)


def missing(data_dir: Path) -> list[Path]:
    """The folder and those above it that do not exist, the deepest first."""
    return [folder for folder in (data_dir, *data_dir.parents) if not os.path.lexists(folder)]


@contextlib.contextmanager
def removed_on_failure(data_dir: Path, made: Sequence[Path]) -> Iterator[None]:
    """Remove the data folder if the block fails, but only one that is new and has nothing but its lock and a key.

    Args:
        data_dir: locked by `only_one`, so that no other `rag up` uses it.
        made: what `missing` gave before the folder was created; only these folders are removed, and only empty ones.
    """
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if made and set(os.listdir(data_dir)) <= {"key", LOCK}:
                for name in ("key", LOCK):  # in this order: who locks the folder next makes a key of their own
                    (data_dir / name).unlink(missing_ok=True)
                for folder in made:
                    folder.rmdir()
        raise


def is_in_use(data_dir: Path) -> bool:
    """Whether a `rag up` has locked the folder."""
    try:
        lock = os.open(data_dir / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Lock the data folder. Raises CliError if another `rag up` has locked it."""
    try:
        lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CliError(
            f"The data folder {data_dir} cannot be used ({error.strerror}); set RAG_DATA_DIR to one you can write to."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        other = running.read(data_dir)
        place = f" at {other.url} (process {other.pid})" if other else ""
        raise CliError(
            f"`rag up` already runs on {data_dir}{place}. Use that one, end it with `rag stop`, or set another "
            "RAG_DATA_DIR."
        ) from None
    try:
        yield
    finally:
        os.close(lock)
