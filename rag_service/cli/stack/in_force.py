"""The current settings, with warnings about unknown RAG_… variables."""

from __future__ import annotations

from rag_service.cli.console import say_warning
from rag_service.settings import Settings, load_settings
from rag_service.unknown_settings import unknown_settings


def settings_in_force(**overrides: object) -> Settings:
    """As `load_settings`; warns of variables that are ignored."""
    for sentence in unknown_settings():
        say_warning(sentence)
    return load_settings(**overrides)
