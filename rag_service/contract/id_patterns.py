"""One pattern for each kind of id. Imports pydantic only, because the Python client loads these patterns too."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

HEX_ID = r"^[0-9a-f]{32}$"
"""Ids of answers and jobs, which the service generates."""
SESSION_ID = r"^[A-Za-z0-9_-]{1,64}$"
KEY_ID = r"^[0-9a-f]{12}$"
"""Ids of API keys."""
COLLECTION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
DOCUMENT_ID = r"^[^/\x00-\x1f\x7f]{1,200}$"
MODEL_ID = r"^[^\x00-\x1f\x7f]{1,300}$"

SessionId = Annotated[str, Field(pattern=SESSION_ID)]
DocumentId = Annotated[str, Field(pattern=DOCUMENT_ID)]
