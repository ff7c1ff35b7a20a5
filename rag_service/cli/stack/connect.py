"""The API that a command talks to: where it is, and the key it is sent."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from rag_service.access import local_key
from rag_service.cli.api import Api
from rag_service.cli.console import CliError
from rag_service.cli.stack.running import api_url
from rag_service.settings import Settings, load_settings
from rag_service.stack.exit_status import USAGE


def connect(url: str | None, api_key: str | None, patience: float = 0.0) -> Api:
    """A client of the running stack; what is None comes from the settings, the key else from the local key's file.

    Raises:
        CliError: the address or the key cannot be one.
    """
    settings = load_settings()
    where = api_url(settings, url)
    if not _is_address(where):
        raise CliError(f"{where} is not an address; give one like http://127.0.0.1:8080.", USAGE)
    return Api(where, patience, api_key=key_for(where, api_key, settings))


def key_for(url: str, api_key: str | None, settings: Settings) -> str | None:
    """The key that is sent to an address: as given, as configured, else the local key to this machine alone.

    Raises:
        CliError: the local key is of no use.
    """
    if api_key is not None:
        return api_key or None
    if settings.api_key is not None:
        return settings.api_key.get_secret_value() or None
    try:
        return local_key.for_address(url, settings.data_dir)
    except local_key.LocalKeyError as error:
        raise CliError(str(error)) from None


def local_key_of(settings: Settings) -> str:
    """The local key, made if there is none. Raises CliError where it is of no use."""
    try:
        return local_key.ensure(settings.data_dir)
    except local_key.LocalKeyError as error:
        raise CliError(str(error)) from None


def _is_address(url: str) -> bool:
    try:
        parsed = urlsplit(url)
        return parsed.scheme in ("http", "https") and bool(parsed.hostname and httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        return False
