"""The API that a command talks to: where it is, and the key it is sent."""

from __future__ import annotations

from rag_service.cli.api import Api
from rag_service.cli.running import api_url
from rag_service.settings import load_settings


def connect(url: str | None, api_key: str | None, patience: float = 0.0) -> Api:
    """A client of the running stack; what is None comes from the settings.

    Raises:
        CliError: the key cannot be one.
    """
    settings = load_settings()
    if api_key is None and settings.api_key is not None:
        api_key = settings.api_key.get_secret_value()
    return Api(api_url(settings, url), patience, api_key=api_key or None)
