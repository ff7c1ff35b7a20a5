"""What an archive says of itself: where it is from, what it counts, and the SHA-256 of everything in it.

It is the archive's last member, because it names the others; the first one gives the format alone, so that a version
that cannot read the rest says so. Knows no files.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

FORMAT = 1
"""Raised when an earlier version would misread an archive."""

StoreKind = Literal["embedded", "postgres"]
STORES: dict[StoreKind, str] = {"embedded": "a data folder", "postgres": "PostgreSQL"}


class Head(BaseModel):
    """The first member."""

    format: int = FORMAT


class Member(BaseModel):
    """A file in the archive."""

    bytes: int
    sha256: str


class SavedCollection(BaseModel):
    """A collection in the archive.

    Attributes:
        embedder: the embedding model that its questions need.
    """

    tenant: str
    name: str
    embedder: str
    documents: int


class Counts(BaseModel):
    """How much is in the archive.

    Attributes:
        jobs: ingests, those that have ended included.
        unfinished_answers: those of `answers` that were waiting or running.
        redis_keys: all keys, those of sessions, answers and API keys included.
    """

    collections: int = 0
    documents: int = 0
    jobs: int = 0
    sessions: int = 0
    answers: int = 0
    unfinished_answers: int = 0
    api_keys: int = 0
    redis_keys: int = 0


class Manifest(BaseModel):
    """The last member.

    Attributes:
        service_version: of the service that wrote it.
        created: when the backup began, ISO 8601 in UTC.
        layouts: of the collections' files or of the schemas in PostgreSQL, by name.
        columns: of each table in PostgreSQL, in the order of its rows in the archive.
        models: settings that name models, with their values. The models are not in the archive.
    """

    format: int = FORMAT
    service_version: str
    created: str
    store: StoreKind
    layouts: dict[str, int]
    columns: dict[str, list[str]] = {}
    models: dict[str, str]
    collections: list[SavedCollection] = []
    counts: Counts = Counts()
    members: dict[str, Member] = {}
