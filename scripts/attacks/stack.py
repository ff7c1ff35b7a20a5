"""A fresh `rag up` in a folder of its own, and its processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from service import Service, until

ROOT = Path(__file__).resolve().parents[2]
START_S = 120.0
SIZE = "256m"
"""Size of the disk for the data folder, if one can be mounted: small, so that the attacks can fill it."""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Stack:
    """A context manager that starts a stack. If it runs as root, the data folder is a disk of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rag-attack-"))
        self.data = self.folder / "data"
        self.data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(self.data)]
        self.disk = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        models = os.environ.get("RAG_MODELS_DIR", str(ROOT / ".rag" / "models"))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAG_")},
            "RAG_DATA_DIR": str(self.data),
            "RAG_MODELS_DIR": str(Path(models).resolve()),
            "RAG_MODEL": "smollm2-135m",  # small: what is attacked is the service
            "RAG_DTYPE": "float32",
            "PYTHONPATH": str(ROOT),
        }
        self.output = self.folder / "up.log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stack:
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._remove()

    def start(self) -> None:
        with open(self.output, "ab", opener=_private) as out:
            command = [sys.executable, "-m", "rag_service.cli", "up", "--port", "0"]
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT, umask=0o022
            )
        try:
            self.run: dict[str, Any] = until(self._run_json, "the stack", START_S)
        except AssertionError as error:
            raise AssertionError(f"{error}. Its output:\n{self.output.read_text()}") from None
        self.service = Service(self.run["url"], (self.data / "key").read_text().strip())

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def rag(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a `rag` command on this stack."""
        command = [sys.executable, "-m", "rag_service.cli", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )

    def pids(self, word: str) -> list[int]:
        """The child processes of `rag up` whose command line matches a pattern."""
        parents: dict[int, int] = {}
        commands: dict[int, str] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        assert self.process is not None
        mine = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
            mine |= more
        return [pid for pid in sorted(mine - {self.process.pid}) if re.search(word, commands.get(pid, ""))]

    def kill(self, word: str) -> None:
        """Send SIGKILL to the first process that matches a pattern."""
        (pid, *_) = until(lambda: self.pids(word), f"a process like {word!r}", START_S)
        os.kill(pid, signal.SIGKILL)

    def workers(self) -> list[str]:
        """Names of the workers with a recent heartbeat."""
        from workers.broker.app import make_redis

        client = make_redis(self.run["redis_url"])
        try:
            names: list[str] = client.zrange("rag:workers", client.time()[0] - 3, "+inf", byscore=True)
            return names
        finally:
            client.close()

    def _run_json(self) -> dict[str, Any] | None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"`rag up` ended with status {self.process.returncode}")
        file = self.data / "run.json"
        run: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
        return run if run and run["pid"] == self.process.pid else None

    def _remove(self) -> None:
        if self.disk:
            subprocess.run(["umount", "-l", str(self.data)], check=False)
        subprocess.run(["rm", "-rf", str(self.folder)], check=False)
