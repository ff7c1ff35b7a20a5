"""One pattern for each kind of id. Knows pydantic alone, as the Python client reads the schemas too."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

HEX_ID = r"^[0-9a-f]{32}$"
"""Ids that the service makes: of answers and jobs."""
SESSION_ID = r"^[A-Za-z0-9_-]{1,64}$"
COLLECTION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
DOCUMENT_ID = r"^[^/\x00-\x1f\x7f]{1,200}$"
MODEL_ID = r"^[^\x00-\x1f\x7f]{1,300}$"

SessionId = Annotated[str, Field(pattern=SESSION_ID)]
DocumentId = Annotated[str, Field(pattern=DOCUMENT_ID)]
