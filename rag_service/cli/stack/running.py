"""The stack that runs on a data folder: `run.json`, which `rag up` writes and other commands read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings


@dataclass(frozen=True)
class Running:
    """A stack that `rag up` started."""

    pid: int
    url: str
    redis_url: str


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
        running = Running(**json.loads(run_file(data_dir).read_text(encoding="utf-8")))
        os.kill(running.pid, 0)
    except PermissionError:
        return running
    except (OSError, ValueError, TypeError):
        return None
    return running


def redis_url(settings: Settings) -> str | None:
    """The configured Redis, with its password, else that of the running stack.

    Raises:
        InvalidSettings: the file with the password cannot be read.
    """
    if settings.redis_url is not None:
        return with_password(settings)
    running = read(settings.data_dir)
    return running.redis_url if running else None


def with_password(settings: Settings) -> str:
    """The configured Redis, with the password from RAG_REDIS_PASSWORD_FILE, if set. Raises InvalidSettings."""
    assert settings.redis_url is not None
    parts, file = urlsplit(settings.redis_url), settings.redis_password_file
    if file is None or parts.password is not None:
        return settings.redis_url
    try:
        password = quote(file.read_text(encoding="utf-8").strip(), safe="")
    except OSError as error:
        raise InvalidSettings(
            f"RAG_REDIS_PASSWORD_FILE: {file} cannot be read ({error.strerror}); name a file that holds the password."
        ) from None
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{password}@{parts.netloc.rpartition('@')[2]}"))


def api_url(settings: Settings, url: str | None = None) -> str:
    """The address of the API: `url`, else the setting's, else the running stack's, else the default."""
    running = read(settings.data_dir)
    if address := url or settings.url or (running.url if running else None):
        return address.rstrip("/")
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else settings.host
    return f"http://{host}:{settings.port}"
