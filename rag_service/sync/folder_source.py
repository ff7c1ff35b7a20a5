"""A folder as a source. Hidden files stay out, and links never lead out of the folder."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from rag_service.contract.file_names import sendable
from rag_service.sync.selection import Selection, hidden, refusal
from rag_service.sync.source import Entry, Fetched, Listing, ReadFailed, Skipped, SourceUnavailable, fetched

IGNORE_FILE = ".ragignore"
"""At the folder's root: patterns that exclude, one a line."""
SETTLED_S = 2.0
"""A file may change again within its time stamp's grain (two seconds on some disks)."""
BLOCK_BYTES = 2**20
VANISHED = "the file vanished while the folder was listed"


class FolderSource:
    """A folder and all below it.

    Args:
        folder: its root.
        name: default: the folder's own name.
        selection: which of its files.

    Raises:
        SourceUnavailable: there is no such folder, or no name.
    """

    def __init__(self, folder: Path, name: str | None = None, selection: Selection | None = None) -> None:
        self.root = folder.resolve()
        self.name = sendable(self.root.name) if name is None else name
        self._selection = selection or Selection()
        if not self.name:
            raise SourceUnavailable(f"{self.root} has no name of its own; give one with --name.")
        self._check()

    def listing(self) -> Listing:
        """What cannot be read, or vanishes meanwhile as on a disk that is going, is unreadable."""
        before = self._check()
        selection = self._selection.plus(self._ignored())
        entries: list[Entry] = []
        skipped: list[Skipped] = []
        unreadable: list[Skipped] = []
        empty: list[str] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self.root / folder) as scan:
                    found = sorted(scan, key=lambda item: item.name)
            except OSError as error:
                unreadable.append(Skipped(folder, f"the folder cannot be read: {error.strerror}"))
                continue
            if not found:
                empty.append(folder)
            for item in found:
                path = f"{folder}/{item.name}" if folder else item.name
                if hidden(item.name):
                    continue
                try:
                    if item.is_dir(follow_symlinks=False):
                        if selection.enters(path):
                            folders.append(path)
                    elif selection.takes(path):
                        one = self._entry(item, path)
                        entries.append(one) if isinstance(one, Entry) else skipped.append(one)
                except FileNotFoundError:
                    unreadable.append(Skipped(path, "a link to nothing" if item.is_symlink() else VANISHED))
                except OSError as error:
                    unreadable.append(Skipped(path, f"the file cannot be read: {error.strerror}"))
        if self._check() != before:
            raise SourceUnavailable(f"{self.root} became another folder while it was listed. Is its disk mounted?")
        entries.sort(key=lambda entry: entry.path)
        return Listing(tuple(entries), tuple(skipped), tuple(unreadable), tuple(empty))

    def read(self, entry: Entry) -> Fetched:
        try:
            with (self.root / entry.path).open("rb") as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    raise ReadFailed("this is not a regular file")
                content = fetched(iter(lambda: file.read(BLOCK_BYTES), b""))
                after = os.fstat(file.fileno())
        except OSError as error:
            raise ReadFailed(f"the file cannot be read: {error.strerror}") from None
        stamps = {(entry.size, entry.stamp), (before.st_size, _stamp(before)), (after.st_size, _stamp(after))}
        if len(stamps) > 1 or content.size != entry.size:
            content.file.close()
            raise ReadFailed("the file changed while it was read; the next sync takes it")
        return content

    def _entry(self, item: os.DirEntry[str], path: str) -> Entry | Skipped:
        """Raises OSError."""
        if item.is_symlink():
            target = Path(os.path.realpath(item.path))
            if not target.is_relative_to(self.root):
                return Skipped(path, "a link that leads out of the folder")
            if target.is_dir():
                return Skipped(path, "a link to a folder")
        info = item.stat()
        if not stat.S_ISREG(info.st_mode):
            return Skipped(path, "not a regular file")
        if reason := refusal(path, self.name):
            return Skipped(sendable(path), reason)
        settled = time.time() - info.st_mtime > SETTLED_S
        return Entry(path, info.st_size, _stamp(info), settled)

    def _ignored(self) -> list[str]:
        try:
            return (self.root / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise SourceUnavailable(f"{self.root / IGNORE_FILE} cannot be read ({error}). Correct it.") from None

    def _check(self) -> tuple[int, int]:
        """Which folder of which disk the root is now. Raises SourceUnavailable."""
        try:
            info = self.root.stat()
            if stat.S_ISDIR(info.st_mode):
                return info.st_dev, info.st_ino
            reason = "is not a folder. `rag ingest` takes single files."
        except FileNotFoundError:
            reason = "does not exist. Is its disk mounted?"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}. Is its disk mounted?"
        raise SourceUnavailable(f"{sendable(str(self.root))} {reason}")


def _stamp(info: os.stat_result) -> str:
    return str(info.st_mtime_ns)
