"""Where the service is, the key it is sent, and when a refused request is sent again. Sends nothing itself."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx

from rag_service.access import local_key
from rag_service.client.errors import RagConnectionError, RagError, RagProblem

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 60.0
"""Seconds of silence after which a request is given up. A stream says that it is still there more often."""
CONNECT_S = 5.0
_SAFE = {"GET", "HEAD", "DELETE", "PUT"}
"""Methods that may be sent twice."""


@dataclass(frozen=True)
class Retries:
    """When a request is sent again: where it was refused as too early (429, 503) and where it never arrived.

    Args:
        most: times it is sent again.
        total_s: most seconds spent waiting for that.
        lost: whether also those that never arrived.
    """

    most: int = 2
    total_s: float = 60.0
    lost: bool = True


class Attempts:
    """How often one request was sent, and whether to send it again."""

    def __init__(self, retries: Retries, method: str) -> None:
        self._retries = retries
        self._method = method
        self._again = 0
        self._waited = 0.0

    def pause(self, error: RagError) -> float:
        """Seconds to wait before the request is sent once more.

        Raises:
            RagError: `error`; sending again is not worth it, or not safe.
        """
        left = self._retries.total_s - self._waited
        if self._again >= self._retries.most or left <= 0 or not self._worth(error):
            raise error
        told = error.retry_after if isinstance(error, RagProblem) else None
        pause = min(min(0.25 * 2**self._again, 8.0) if told is None else told, left)
        self._again += 1
        self._waited += max(pause, 0.01)
        return pause

    def _worth(self, error: RagError) -> bool:
        match error:
            case RagProblem():
                return error.status in (429, 503)
            case RagConnectionError():
                return self._retries.lost and (self._method in _SAFE or not error.sent)
        return False


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that connections trust; reading them takes longer than a search."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Address:
    """Where the service is and who asks; what is None comes from RAG_URL and RAG_API_KEY.

    Where there is no key either, a service on this machine is sent the local key, if it can be read: the file `key` in
    RAG_DATA_DIR, else in `.rag`. "" sends none.

    Raises:
        RagError: the key cannot be one.
    """

    base_url: str
    api_key: str | None
    timeout: float

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, timeout: float | None) -> Address:
        url = base_url or os.environ.get("RAG_URL") or DEFAULT_URL
        key = api_key if api_key is not None else os.environ.get("RAG_API_KEY")
        if key is None:
            key = _local_key(url)
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise RagError("The API key holds characters that no key has; copy it again from where it was shown.")
        return cls(url.rstrip("/"), key or None, TIMEOUT_S if timeout is None else timeout)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine: no proxy between is wanted, nor told the key."""
        return local_key.is_loopback(self.base_url)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    @property
    def limits(self) -> httpx.Timeout:
        return httpx.Timeout(self.timeout, connect=min(CONNECT_S, self.timeout))


def _local_key(url: str) -> str | None:
    file = local_key.key_file(Path(os.environ.get("RAG_DATA_DIR", ".rag")))
    if not os.access(file, os.R_OK):  # another user's, or none
        return None
    try:
        return local_key.for_address(url, file.parent)
    except local_key.LocalKeyError as error:
        raise RagError(str(error)) from None
