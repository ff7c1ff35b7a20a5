"""Archives that are equal if their files are: no times and no users of the machine that made them."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

EPOCH = 315532800
"""1980-01-01, the first time that a zip archive, and so a wheel, can hold."""


def pack_again(source: Path, folder: Path) -> Path:
    """Copy a `.tar.gz` to a folder, with its members in order and EPOCH as the time of each. Returns the copy."""
    target = folder / source.name
    with (
        tarfile.open(source) as old,
        target.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=EPOCH, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = EPOCH, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return target
