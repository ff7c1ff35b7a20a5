"""What a sync reads from: entries by path, and their bytes. Knows no collection."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Protocol

MEMORY_BYTES = 4 * 2**20
"""A larger file waits on disk until it is sent."""


class SourceUnavailable(Exception):
    """The source cannot be listed, so nothing is known of it. The message says what to do."""


class ReadFailed(Exception):
    """One entry cannot be read now. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the source."""

    path: str
    """Below the source's root, with `/` between the parts."""
    size: int
    """Bytes."""
    stamp: str
    """Another stamp or size tells of another content; equal ones, of the same. A time of change, or an ETag."""
    settled: bool = True
    """False while the file might change again under the same stamp."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that is not synced, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source has at one time."""

    entries: tuple[Entry, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unreadable: tuple[Skipped, ...] = ()
    """Files and folders of which nothing can be said now; what is held at or below them stays. "" is the root."""
    empty: tuple[str, ...] = ()
    """Folders without any entry: where a disk is not mounted, its folder is empty."""


@dataclass
class Fetched:
    """The bytes of an entry, and their digest: what is sent is what was read, whatever the file does meanwhile."""

    file: IO[bytes]
    sha256: str
    size: int


class Source(Protocol):
    """A folder, or a bucket.

    `name` stands first in the names of its documents. It is how a collection tells its sources apart.
    """

    name: str

    def listing(self) -> Listing:
        """Raises SourceUnavailable."""
        ...

    def read(self, entry: Entry) -> Fetched:
        """Raises ReadFailed, also if the entry is no longer what the listing had."""
        ...


def fetched(blocks: Iterable[bytes]) -> Fetched:
    """The bytes of some blocks, to be read again."""
    digest = hashlib.sha256()
    size = 0
    file: IO[bytes] = io.BytesIO()
    try:
        for block in blocks:
            size += len(block)
            if size > MEMORY_BYTES and isinstance(file, io.BytesIO):
                file = _on_disk(file)
            digest.update(block)
            file.write(block)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Fetched(file, digest.hexdigest(), size)


def _on_disk(memory: io.BytesIO) -> IO[bytes]:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (the receiver closes it)
    file.write(memory.getvalue())
    return file
