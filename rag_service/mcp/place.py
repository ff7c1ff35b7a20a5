"""Where the stack is and which key is sent to it, for each call of a tool anew: a stack may start after its client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rag_service.client import AsyncRagClient, Retries
from rag_service.mcp.tool import ToolFailed

RETRIES = Retries(total_s=20.0)
"""Clients of MCP give a call about a minute."""


@dataclass(frozen=True)
class Place:
    """The stack's address, and the key sent to it; None sends none."""

    url: str
    api_key: str | None

    def with_key_of(self, headers: Mapping[str, str]) -> Place:
        """The same address with the key of an HTTP request, if it has one.

        Raises:
            ToolFailed: the header cannot be read.
        """
        header = headers.get("authorization")
        if header is None:
            return self
        scheme, _, key = header.strip().partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise ToolFailed("The Authorization header cannot be read. Send one, as `Authorization: Bearer KEY`.")
        return replace(self, api_key=key.strip())

    def client(self) -> AsyncRagClient:
        """Raises RagError if the key holds characters that no key has."""
        return AsyncRagClient(self.url, self.api_key or "", retries=RETRIES)


Locate = Callable[[], Place]
"""Finds the stack. Raises RagServiceError with what to do."""
