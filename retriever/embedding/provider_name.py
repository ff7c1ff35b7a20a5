"""How a setting names an embedding model of a provider: `provider:model`."""

from __future__ import annotations

import re

_PROVIDER_MODEL = re.compile(r"[a-z][a-z0-9_]*:\S+")


def names_provider(model: str) -> bool:
    """Whether a setting has the form `provider:model`."""
    return _PROVIDER_MODEL.fullmatch(model) is not None
