"""The stack that runs on a data folder: the file `run.json`, which `rag up` writes; commands and clients read it.

Knows files and processes; knows no settings and no HTTP.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Running:
    """A stack that `rag up` started. `models_dir`: the folder of its models; "" from versions that did not say it."""

    pid: int
    url: str
    redis_url: str
    models_dir: str = ""


def run_file(data_dir: Path) -> Path:
    return data_dir / "run.json"


def write(data_dir: Path, running: Running) -> None:
    file = run_file(data_dir)
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        json.dump(asdict(running), opened)
    new.rename(file)


def read(data_dir: Path) -> Running | None:
    """The running stack; None if there is none, or if it ended without removing its file."""
    try:
        stored = json.loads(run_file(data_dir).read_text(encoding="utf-8"))
        running = Running(**{name: stored[name] for name in Running.__dataclass_fields__ if name in stored})
        os.kill(running.pid, 0)
    except PermissionError:
        return running
    except (OSError, ValueError, TypeError):
        return None
    return running


def _is_here(url: str) -> bool:
    """Whether an address is this machine's: keys are sent to it, and a folder may come from anybody."""
    host = urlsplit(url).hostname or ""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as bound:
        try:
            bound.bind((host, 0))
        except OSError:
            return False
    return bool(host)


def known_address(data_dir: Path, *given: str | None) -> str | None:
    """The first address that is given, else that of the running stack, if it is on this machine; None for neither."""
    for address in given:
        if address:
            return address
    running = read(data_dir)
    return running.url if running and _is_here(running.url) else None
