"""`rag up` as a process, with tiny random models."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE_S = 150


@dataclass
class Stack:
    process: subprocess.Popen[bytes]
    data_dir: Path
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text()

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := holds():
                return found
            time.sleep(0.1)
        logs = "\n".join(f"{log}:\n{log.read_text()[-3000:]}" for log in self.data_dir.glob("logs/*"))
        pytest.fail(f"{what} did not happen:\n{self.text}\n{logs}")

    def run_json(self) -> dict[str, Any] | None:
        file = self.data_dir / "run.json"
        found: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
        return found

    def children(self) -> dict[int, str]:
        """Command lines by process id of all that `rag up` started."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError):
                continue
            if parent == self.process.pid:
                found[int(entry.name)] = command
        return found


@contextlib.contextmanager
def started(models: Path, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Stack]:
    """A stack whose data folder is `data` in the given one; killed at the end if it still runs.

    Args:
        settings: more variables of its environment.
    """
    data_dir, output = folder / "data", folder / "up.log"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAG_")},
        "PYTHONPATH": str(ROOT),
        "RAG_DATA_DIR": str(data_dir),
        "RAG_MODELS_DIR": str(models),
        "RAG_MODEL": str(models / "tiny"),
        "RAG_DTYPE": "float32",
        "RAG_EMBEDDING_MODEL": str(models / "tiny-embedder"),
        "OMP_NUM_THREADS": "1",
        **settings,
    }
    output.touch(0o600)  # else `rag up` shows no key in it
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_service.cli", "up", "--port", "0"],
            env=environment, cwd=folder, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield Stack(process, data_dir, output)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
