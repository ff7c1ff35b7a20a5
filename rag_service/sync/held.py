"""What a collection holds of a source: the record of its file in each document's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KEY = "sync"
"""The metadata's key: `{source, path, size, stamp, sha256}`."""


@dataclass(frozen=True, slots=True)
class Held:
    """A document, and the file it was made from."""

    document_id: str
    path: str
    size: int = -1
    stamp: str = ""
    """"" if the file could have changed again under the same stamp when it was read."""
    sha256: str = ""
    """"" if the document did not come from a sync."""

    def metadata(self, source: str) -> dict[str, Any]:
        record = {"source": source, "path": self.path, "size": self.size, "stamp": self.stamp, "sha256": self.sha256}
        return {KEY: record}


@dataclass(frozen=True, slots=True)
class Holding:
    """All that a collection holds of a source."""

    by_path: dict[str, Held]
    """Synced documents."""
    adoptable: dict[str, Held]
    """Documents that `rag ingest` made from files of such names: they are replaced, and removed only after that."""
    doubles: tuple[Held, ...]
    """Further documents of a path; nothing but two syncs at a time can leave some."""
    ids: frozenset[str]
    """The ids of all documents of the collection."""


def holding(documents: Iterable[Mapping[str, Any]], source: str) -> Holding:
    """What the documents, as `GET …/documents` lists them, hold of a source."""
    by_path: dict[str, Held] = {}
    adoptable: dict[str, Held] = {}
    doubles: list[Held] = []
    ids: set[str] = set()
    for document in documents:
        document_id = str(document["document_id"])
        ids.add(document_id)
        record = document["metadata"].get(KEY)
        if record is None:
            prefix, _, path = str(document["name"]).partition("/")
            if prefix == source and path:
                adoptable[path] = Held(document_id, path)
        elif (one := _held(document_id, record, source)) is not None:
            if one.path in by_path:
                doubles.append(one)
            else:
                by_path[one.path] = one
    return Holding(by_path, adoptable, tuple(doubles), frozenset(ids))


def _held(document_id: str, record: Any, source: str) -> Held | None:
    match record:
        case {
            "source": str(name),
            "path": str(path),
            "size": int(size),
            "stamp": str(stamp),
            "sha256": str(sha256),
        } if name == source:
            return Held(document_id, path, size, stamp, sha256)
    return None
