"""The stack that a command uses: the API's address and the key sent to it, or its Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from rag_service.access import local_key
from rag_service.cli.api import Api
from rag_service.cli.console import CliError
from rag_service.cli.stack.addresses import api_url, not_found, redis_url, starting
from rag_service.settings import Settings, load_settings
from rag_service.stack.exit_status import UNREACHABLE, USAGE

if TYPE_CHECKING:
    from workers.broker.app import RedisClient


def connect(url: str | None, api_key: str | None, patience: float = 0.0, *, asking: bool = False) -> Api:
    """A connection to the running stack. None stands for the settings and the local key; `asking` as in `Api`.

    Raises:
        CliError: the address or the key is invalid.
    """
    settings = load_settings()
    address = address_of(settings, url)
    key = key_for(address, api_key, settings)
    return Api(
        address,
        patience,
        api_key=key,
        key_from=key_from(address, api_key, settings),
        not_found=not_found(settings, url),
        starting=starting(settings, url),
        asking=asking,
    )


def address_of(settings: Settings, url: str | None) -> str:
    """The address of the running stack: `url`, else that of the settings. Raises CliError if it is none."""
    address = api_url(settings, url)
    if not _is_address(address):
        raise CliError(f"{address} is not an address; give one like http://127.0.0.1:8080.", USAGE)
    return address


def key_for(url: str, api_key: str | None, settings: Settings) -> str | None:
    """The key that is sent to an address: `api_key`, else the setting's, else, to this machine alone, the local key.

    Raises:
        CliError: the local key cannot be used.
    """
    if api_key is not None:
        return api_key or None
    if settings.api_key is not None:
        return settings.api_key.get_secret_value() or None
    try:
        return local_key.for_address(url, settings.data_dir)
    except local_key.LocalKeyError as error:
        raise CliError(str(error)) from None


def key_from(url: str, api_key: str | None, settings: Settings) -> str:
    """A sentence that says where the key for an address came from, or where none was found."""
    if api_key is not None:
        return "The key is that of --api-key." if api_key else "No key was sent: that of --api-key is empty."
    if settings.api_key is not None:
        known = settings.api_key.get_secret_value()
        return "The key is that of RAG_API_KEY." if known else "No key was sent: RAG_API_KEY is empty."
    nowhere = "No key was found: neither --api-key nor RAG_API_KEY is set, and"
    if not local_key.is_loopback(url):
        return f"{nowhere} a local key is sent to this machine alone."
    file = local_key.key_file(settings.data_dir).resolve()
    if file.exists():
        return f"The key is the local key {file}; if the service has another data folder, set RAG_DATA_DIR to it."
    return f"{nowhere} there is no file {file}; if the service has another data folder, set RAG_DATA_DIR to it."


def local_key_of(settings: Settings) -> str:
    """The local key, created if needed. Raises CliError if it cannot be used."""
    try:
        return local_key.ensure(settings.data_dir)
    except local_key.LocalKeyError as error:
        raise CliError(str(error)) from None


@contextmanager
def stack_redis(purpose: str) -> Iterator[RedisClient]:
    """The Redis of the running stack, for commands on its own machine.

    Args:
        purpose: what it is for, in a relative clause.

    Raises:
        CliError: it is not known, or cannot be reached.
    """
    from workers.broker.app import make_redis
    from workers.errors import QueueUnavailable

    url = redis_url(load_settings())
    if url is None:
        raise CliError(
            f"No Redis is set, {purpose}. Start everything with `rag up`, or set RAG_REDIS_URL.", UNREACHABLE
        )
    try:
        client = make_redis(url)
    except ValueError as error:
        raise CliError(f"RAG_REDIS_URL: {error}.", USAGE) from None
    try:
        yield client
    except QueueUnavailable as error:
        raise CliError(f"{error}.", UNREACHABLE) from None
    finally:
        client.close()


def _is_address(url: str) -> bool:
    try:
        parsed = urlsplit(url)
        return parsed.scheme in ("http", "https") and bool(parsed.hostname and httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        return False
