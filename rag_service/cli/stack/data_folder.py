"""The data folder: this user's alone, and one `rag up`'s at a time.

Knows names and permissions; knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rag_service.cli.console import CliError
from rag_service.cli.stack import running

_OURS = ("collections", "tenants", "uploads", "redis", "logs", "learned", "key", "run.json", "up.lock")
"""What lies in it. Anything else in the folder is the user's own and stays as it is."""


def keep_private(data_dir: Path) -> None:
    """Make the folder if need be, and let nobody else read it, nor what this process writes from now on.

    A folder of an earlier version is tightened: itself and what lies directly in it, as far as it is this user's.
    Nobody else gets past the folder itself, so nothing below is walked through. A folder of another user, such as one
    that several share, stays as it is. One that cannot be made is left to who needs it: some workers do not.
    """
    os.umask(0o077)
    with contextlib.suppress(OSError):
        data_dir.mkdir(parents=True, exist_ok=True)
    for path in (data_dir, *(data_dir / name for name in _OURS)):
        with contextlib.suppress(OSError):  # not there, or not ours
            found = path.lstat()
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and mode & 0o077:
                path.chmod(mode & 0o700)


@contextlib.contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder. Raises CliError when another `rag up` has it."""
    try:
        lock = os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CliError(
            f"The data folder {data_dir} cannot be used ({error.strerror}); set RAG_DATA_DIR to one you can write to."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        found = running.read(data_dir)
        where = f" at {found.url} (process {found.pid})" if found else ""
        raise CliError(
            f"`rag up` runs on {data_dir} already{where}. Use that one, stop it, or set another RAG_DATA_DIR."
        ) from None
    try:
        yield
    finally:
        os.close(lock)
