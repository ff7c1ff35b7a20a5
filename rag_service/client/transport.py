"""The service's address, the key sent to it, and when a rejected request is sent again. Sends nothing itself."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx

from rag_service.access import local_key, running
from rag_service.client.errors import RagConnectionError, RagError, RagProblem

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 60.0
"""Seconds of silence after which a request fails. A stream sends a sign of life more often than that."""
CONNECT_S = 5.0
DISTRIBUTION = __name__.partition(".")[0].replace("_", "-")
"""The distribution that this module is installed with."""
_SAFE = {"GET", "HEAD", "DELETE", "PUT"}
"""Methods that may be sent twice."""


@dataclass(frozen=True)
class Retries:
    """When a request is sent again: after a 429 or 503, and after a connection that failed before it arrived.

    Args:
        most: how often it is sent again.
        total_s: longest total wait between attempts, in seconds.
        lost: whether requests that never arrived are sent again as well.
    """

    most: int = 2
    total_s: float = 60.0
    lost: bool = True


class Attempts:
    """Counts the attempts of one request and decides whether to send it again."""

    def __init__(self, retries: Retries, method: str) -> None:
        self._retries = retries
        self._method = method
        self._retried = 0
        self._waited = 0.0

    def pause(self, error: RagError) -> float:
        """Seconds to wait before the request is sent once more.

        Raises:
            RagError: `error` itself; sending again would not help, or is not safe.
        """
        remaining = self._retries.total_s - self._waited
        if self._retried >= self._retries.most or remaining <= 0 or not self._is_retryable(error):
            raise error
        retry_after = error.retry_after if isinstance(error, RagProblem) else None
        pause = min(min(0.25 * 2**self._retried, 8.0) if retry_after is None else retry_after, remaining)
        self._retried += 1
        self._waited += max(pause, 0.01)
        return pause

    def _is_retryable(self, error: RagError) -> bool:
        match error:
            case RagProblem():
                return error.status in (429, 503)
            case RagConnectionError():
                return self._retries.lost and (self._method in _SAFE or not error.sent)
        return False


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that connections trust. Cached: reading them takes longer than a search."""
    return httpx.create_ssl_context()


@cache
def user_agent() -> str:
    """The distribution's name and version, as requests carry them: `NAME/VERSION`; the name alone if not installed."""
    try:
        return f"{DISTRIBUTION}/{metadata.version(DISTRIBUTION)}"
    except metadata.PackageNotFoundError:
        return DISTRIBUTION


@dataclass(frozen=True)
class Address:
    """The service's address and the key sent to it. None stands for `address_of` and RAG_API_KEY.

    Without any key, a service on this machine is sent the local key, if it can be read: the file `key` in RAG_DATA_DIR,
    else in `.rag`. The key "" sends none.

    Raises:
        RagError: the key holds characters that a key cannot have.
    """

    base_url: str
    api_key: str | None
    timeout: float

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, timeout: float | None) -> Address:
        url = address_of(base_url)
        key = api_key if api_key is not None else os.environ.get("RAG_API_KEY")
        if key is None:
            key = _local_key(url)
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise RagError("The API key holds characters that no key has; copy it again.")
        return cls(url.rstrip("/"), key or None, TIMEOUT_S if timeout is None else timeout)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    def client_options(self) -> dict[str, Any]:
        """Arguments of httpx's clients. A proxy never stands between this machine and itself, nor sees the key."""
        return {
            "base_url": self.base_url,
            "timeout": httpx.Timeout(self.timeout, connect=min(CONNECT_S, self.timeout)),
            "headers": {"User-Agent": user_agent(), **self.headers},
            "verify": trusted(),
            "trust_env": not local_key.is_loopback(self.base_url),
        }


def address_of(base_url: str | None = None) -> str:
    """The service's address: `base_url`, else RAG_URL, else that of the stack of the data folder, else DEFAULT_URL.

    The data folder is RAG_DATA_DIR, else `.rag` in the current folder.
    """
    return running.known_address(_data_dir(), base_url, os.environ.get("RAG_URL")) or DEFAULT_URL


def _data_dir() -> Path:
    return Path(os.environ.get("RAG_DATA_DIR") or ".rag")


def _local_key(url: str) -> str | None:
    file = local_key.key_file(_data_dir())
    if not os.access(file, os.R_OK):  # another user's, or none
        return None
    try:
        return local_key.for_address(url, file.parent)
    except local_key.LocalKeyError as error:
        raise RagError(str(error)) from None
