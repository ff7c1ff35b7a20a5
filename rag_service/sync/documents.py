"""The collection as a sync uses it. `rag_service.cli.sync.documents` is one over the HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to ingest; it replaces the document of its id."""

    document_id: str
    name: str
    metadata: Mapping[str, Any]
    file: IO[bytes]


class Documents(Protocol):
    """The documents of one collection."""

    def all(self) -> Iterable[Mapping[str, Any]]:
        """Every document's `document_id`, `name` and `metadata`, once no ingest of the collection is under way."""
        ...

    def put(self, uploads: Sequence[Upload], progress: Callable[[int], None]) -> dict[str, str]:
        """Ingest the uploads, whose names differ, and wait. Returns names and reasons of those that did not go in.

        `progress` is called with the number done.
        """
        ...

    def delete(self, document_id: str) -> None:
        """Remove a document; nothing happens if there is none."""
        ...
