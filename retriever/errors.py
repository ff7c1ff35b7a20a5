"""The retriever's exceptions, drawn as a tree.

    RetrieverError
    ├── InvalidName           a collection name that is not allowed
    ├── InvalidQuery          an invalid question, top_k, mode or filter
    ├── UnknownCollection     no collection has that name
    ├── CollectionExists      a collection has that name already
    ├── CollectionMismatch    a collection of that name is not a copy of the one to be copied
    ├── CollectionBusy        another process holds the collection's write lock for too long
    ├── CollectionInUse       the collection's index is being built anew
    ├── DiskFull              the disk has no room for a change
    ├── StoreUnavailable      the database that keeps the collections cannot be used
    ├── UnknownDocument       no document in the collection has that id
    ├── EmbedderMismatch      the collection was built with another embedder
    ├── EmbedderUnavailable   the embedding model cannot be loaded, or its server is away
    ├── RerankerUnavailable   the reranker cannot be loaded or used
    └── LoadError             a file that cannot be turned into text (`reason` says why)
        ├── UnsupportedFormat     its format is not one of the supported ones
        └── UnreadableDocument    its format is supported, its content is broken or empty

Each message says what to do. Knows nothing of HTTP: status codes are chosen by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RetrieverError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidName(RetrieverError, ValueError):
    """A collection name outside `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`."""

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 80 else name[:80] + "…"
        super().__init__(
            f"{shown!r} is not a collection name: use 1 to 64 letters, digits, '-' or '_', "
            "beginning with a letter or digit"
        )


class InvalidQuery(RetrieverError, ValueError):
    """An invalid search; the message names the field and the allowed range."""


class UnknownCollection(RetrieverError, LookupError):
    """`existing`: names of collections; the message suggests a close one, `similar` (None if none is close)."""

    ADVICE = "create it first, or list the collections there are"

    def __init__(self, name: str, existing: Iterable[str] = ()) -> None:
        self.similar = next(iter(get_close_matches(name, list(existing), n=1)), None)
        suggestion = f" (did you mean {self.similar!r}?)" if self.similar else ""
        super().__init__(f"there is no collection {name!r}{suggestion}; {self.ADVICE}")
        self.name = name


class CollectionExists(RetrieverError):
    def __init__(self, name: str) -> None:
        super().__init__(f"a collection {name!r} exists already; delete it first, or choose another name")
        self.name = name


class CollectionMismatch(RetrieverError):
    """`reason`: how it differs."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"collection {name!r} {reason}; choose another name for the copy, or delete that one first")
        self.name = name


class CollectionBusy(RetrieverError):
    def __init__(self, name: str) -> None:
        super().__init__(f"collection {name!r} is being written by another process; try again in a moment")
        self.name = name


class CollectionInUse(RetrieverError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"the index of collection {name!r} is being built anew; let `rag collections reindex {name}` finish, or "
            "remove the unfinished index with --cancel"
        )
        self.name = name


class DiskFull(RetrieverError):
    def __init__(self, collection: str) -> None:
        super().__init__(
            f"the disk is full: collection {collection!r} keeps what it had; make room in the data folder and try again"
        )


class StoreUnavailable(RetrieverError, RuntimeError):
    """The store's database cannot be reached, or lacks something; the message says what to check. No password in it."""


class UnknownDocument(RetrieverError, LookupError):
    def __init__(self, document_id: str, collection: str) -> None:
        super().__init__(f"collection {collection!r} has no document {document_id!r}; list its documents for their ids")
        self.document_id = document_id
        self.collection = collection


class EmbedderMismatch(RetrieverError):
    def __init__(self, collection: str, built_with: str, configured: str) -> None:
        super().__init__(
            f"collection {collection!r} was built with the embedding model {built_with}, not {configured}: "
            "configure that model (and its prefixes, if it names any), or reindex the collection "
            "(docs/how-to/reindex.md)"
        )


class EmbedderUnavailable(RetrieverError, RuntimeError):
    """The embedding model cannot be loaded, or its provider does not answer."""


class RerankerUnavailable(RetrieverError, RuntimeError):
    """The reranker cannot be loaded, or its scores cannot be used."""


class LoadError(RetrieverError):
    """A file that did not become text. `reason`: a sentence fit for a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsupportedFormat(LoadError):
    pass


class UnreadableDocument(LoadError):
    pass
