"""The API that a command talks to: where it is, and the key it is sent."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from rag_service.cli.api import Api
from rag_service.cli.console import USAGE, CliError
from rag_service.cli.running import api_url
from rag_service.settings import load_settings


def connect(url: str | None, api_key: str | None, patience: float = 0.0) -> Api:
    """A client of the running stack; what is None comes from the settings.

    Raises:
        CliError: the address or the key cannot be one.
    """
    settings = load_settings()
    where = api_url(settings, url)
    if not _is_address(where):
        raise CliError(f"{where} is not an address; give one like http://127.0.0.1:8080.", USAGE)
    if api_key is None and settings.api_key is not None:
        api_key = settings.api_key.get_secret_value()
    return Api(where, patience, api_key=api_key or None)


def _is_address(url: str) -> bool:
    try:
        parsed = urlsplit(url)
        return parsed.scheme in ("http", "https") and bool(parsed.hostname and httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        return False
