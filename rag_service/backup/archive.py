"""One archive on disk: a tar file compressed with gzip, whole under its name or not there at all.

Gzip and not zstd, which Python reads from 3.14 on only: an archive must be readable wherever the service runs. Knows
members by name, size and SHA-256; knows nothing of what is in them. It takes no links, folders or special files, and no
names but those of `NAMES`, so nothing in an archive can lead out of the folder that it is unpacked into.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import FORMAT, Head, Manifest, Member
from workers.ingests.files import sync

HEAD = "rag-backup.json"
MANIFEST = "manifest.json"
REDIS = "redis.jsonl"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
NAMES = re.compile(
    rf"{REDIS}"
    rf"|collections/(?P<tenant>{_NAME})/(?P<collection>{_NAME})\.sqlite3"
    r"|uploads/(?P<job>[A-Za-z0-9_-]{1,64})/(?P<file>[A-Za-z0-9][A-Za-z0-9._-]{0,99})"
    r"|postgres/(?P<table>[a-z_]{1,63}\.[a-z_]{1,63})\.copy",
    re.ASCII,
)
"""Names of members, beside the first and the last one."""
LEVEL = 1
"""Most of an archive is vectors, which no level makes much smaller."""
PIECE = 1 << 20
JSON_BYTES = 256 * PIECE
"""Of a manifest at most."""
_GZIP = b"\x1f\x8b"
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeError, ValidationError)

Read = Callable[[int], object]
"""Told the bytes of the file that were read so far."""


class ArchiveWriter:
    """An archive that is being written; `writing` makes one.

    Attributes:
        folder: for files on their way into the archive, on its disk; deleted with everything in it at the end.
    """

    def __init__(self, tar: tarfile.TarFile, folder: Path) -> None:
        self._tar = tar
        self.folder = folder
        self._members: dict[str, Member] = {}

    def add(self, name: str, path: Path) -> None:
        """Add a file that nothing changes any more."""
        if not NAMES.fullmatch(name) or name in self._members:
            raise BackupError(f"{path} cannot be saved as {name!r}: an archive has no such name. Rename or remove it.")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            self._members[name] = self._write(name, file, status.st_size, status.st_mtime)

    def end(self, manifest: Manifest) -> None:
        """Add the manifest, with the members so far."""
        manifest.members = self._members
        self.write_text(MANIFEST, manifest.model_dump_json(indent=1))

    def write_text(self, name: str, text: str) -> None:
        data = text.encode()
        self._write(name, io.BytesIO(data), len(data), 0.0)

    def _write(self, name: str, file: IO[bytes], size: int, modified: float) -> Member:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, int(modified), 0o600
        reader = _Hashing(file)
        self._tar.addfile(info, reader)
        return Member(bytes=size, sha256=reader.digest.hexdigest())


class _Hashing:
    """A file that is read, with the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


@contextlib.contextmanager
def writing(path: Path, *, replace: bool) -> Iterator[ArchiveWriter]:
    """A new archive, which has its name once this ends, with everything on the disk; an exception leaves none.

    It is written beside its name, as `FILE.partial`; a process that was killed leaves that behind, and the next one
    removes it.

    Args:
        replace: whether it may take the place of a file of that name.

    Raises:
        BackupError: there is a file of that name, or another process writes it.
    """
    partial, folder = path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.partial.d")
    _check_free(path, replace)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackupError(f"Another backup writes {path}. Wait for it, or choose another name.") from None
        if not partial.exists() or partial.stat().st_ino != os.fstat(descriptor).st_ino:
            raise BackupError(f"Another backup has just written {path}. Try again.")
        try:
            os.fchmod(descriptor, 0o600)
            raw.truncate()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            with (
                gzip.GzipFile("", "wb", LEVEL, raw) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                writer = ArchiveWriter(tar, folder)
                writer.write_text(HEAD, Head().model_dump_json())
                yield writer
            raw.flush()
            os.fsync(descriptor)
            _check_free(path, replace)
            partial.rename(path)
            sync(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _check_free(path: Path, replace: bool) -> None:
    if path.exists() and not (replace and path.is_file()):
        raise BackupError(f"{path} exists already. Choose another name, or replace it with --force.")


def verified(path: Path, read: Read = lambda done: None) -> Manifest:
    """Read an archive from its first to its last byte and compare all of it with its manifest.

    Raises:
        BackupError: it is no archive, of a newer format, damaged, or has a member that no archive has.
    """
    with _whole(path, read) as members:
        return _read(path, members, lambda name: None)


def unpack(path: Path, place: Callable[[str], Path], read: Read = lambda done: None) -> Manifest:
    """Write the members of an archive to where `place` says, each on the disk, and verify all of it on the way.

    Raises:
        BackupError: as for `verified`.
    """
    with _whole(path, read) as members:
        return _read(path, members, place)


@contextlib.contextmanager
def _whole(path: Path, read: Read) -> Iterator[Iterator[tuple[tarfile.TarInfo, IO[bytes]]]]:
    """The members in order; at their end everything behind them was read too, with gzip's checksum."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path} cannot be read ({error.strerror}). Name an archive of `rag backup`.") from None
    with raw:
        if raw.read(len(_GZIP)) != _GZIP:
            raise _no_archive(path)
        raw.seek(0)

        def members() -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
            with gzip.GzipFile(fileobj=raw) as packed:
                with tarfile.open(fileobj=packed, mode="r|") as tar:
                    for info in tar:
                        file: Any = tar.extractfile(info) if info.isreg() and not info.issparse() else None
                        if file is None:
                            raise BackupError(f"{path} has {info.name[:80]!r}, which is no file; nothing was changed.")
                        yield info, file
                        read(raw.tell())
                while packed.read(PIECE):
                    read(raw.tell())

        try:
            yield members()
        except _DAMAGED as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise _damaged(path, reason) from error


def _read(
    path: Path, members: Iterator[tuple[tarfile.TarInfo, IO[bytes]]], place: Callable[[str], Path | None]
) -> Manifest:
    info, file = next(members, (None, None))
    if info is None or file is None or info.name != HEAD:
        raise _no_archive(path)
    found = Head.model_validate_json(file.read(PIECE)).format
    if found > FORMAT:
        raise BackupError(
            f"{path} has format {found}, and this version reads up to {FORMAT}: restore it with the version of "
            "rag-service that wrote it, or a later one. Nothing was changed."
        )
    manifest: Manifest | None = None
    seen: dict[str, Member] = {}
    for info, file in members:
        if manifest is not None:
            raise _damaged(path, f"{info.name[:80]!r} stands behind the manifest")
        if info.name == MANIFEST:
            manifest = Manifest.model_validate_json(file.read(JSON_BYTES))
            continue
        if not NAMES.fullmatch(info.name) or info.name in seen:
            raise BackupError(f"{path} has {info.name[:80]!r}, which no archive has; nothing was changed.")
        target = place(info.name)
        hashing = _Hashing(file)
        if target is None:
            while hashing.read(PIECE):
                pass
        else:
            _write_out(hashing, target, info.mtime)
        seen[info.name] = Member(bytes=info.size, sha256=hashing.digest.hexdigest())
    if manifest is None:
        raise _damaged(path, "it ends too early")
    for name in manifest.members.keys() | seen.keys():
        if manifest.members.get(name) != seen.get(name):
            raise _damaged(path, f"{name} is not what the manifest says")
    return manifest


def _write_out(file: _Hashing, target: Path, modified: float) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while data := file.read(PIECE):
            out.write(data)
        out.flush()
        os.utime(out.fileno(), (modified, modified))
        os.fsync(out.fileno())
    sync(target.parent)


def _no_archive(path: Path) -> BackupError:
    return BackupError(f"{path} is no archive of `rag backup`; nothing was changed.")


def _damaged(path: Path, reason: str) -> BackupError:
    return BackupError(f"{path} is damaged ({reason}); nothing was changed. Use another copy of it.")
