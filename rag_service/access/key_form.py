"""The format of a key: `rag_ID_SECRET`. The id is public and names the record; the secret has 256 random bits."""

from __future__ import annotations

import re
import secrets

PREFIX = "rag_"
KEY = re.compile(r"rag_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
"""Matches a whole key; group 1 is the id."""


def new_key() -> tuple[str, str]:
    """The id and the text of a new random key."""
    key_id = secrets.token_hex(6)
    return key_id, f"{PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
