"""The file itself: what is whole is read, and nothing else is; nothing in it leads out of its folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_service.backup.archive import FORMAT, HEAD, MANIFEST, REDIS, unpack, verified, writing
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import Manifest

CONTENTS = {REDIS: b"", "uploads/ab12/job.json": b"{}", "collections/default/notes.sqlite3": b"data" * 1000}


def manifest() -> Manifest:
    return Manifest(service_version="1", created="now", store="embedded", layouts={}, models={})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of `CONTENTS`."""
    path = tmp_path / "all.tar.gz"
    with writing(path, replace=False) as writer:
        for name, data in CONTENTS.items():
            (writer.folder / "file").write_bytes(data)
            writer.add(name, writer.folder / "file")
        writer.end(manifest())
    return path


def built(path: Path, members: Sequence[tuple[tarfile.TarInfo | str, bytes]]) -> Path:
    """An archive with any members."""
    with tarfile.open(path, "w:gz") as tar:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def described(contents: dict[str, bytes], **changes: Any) -> bytes:
    told = manifest().model_dump()
    told["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()
    }
    return json.dumps({**told, **changes}).encode()


def whole(contents: dict[str, bytes]) -> list[tuple[tarfile.TarInfo | str, bytes]]:
    return [(HEAD, b'{"format": 1}'), *contents.items(), (MANIFEST, described(contents))]


def test_an_archive_is_unpacked_as_it_was(archive: Path, tmp_path: Path) -> None:
    assert verified(archive).members.keys() == CONTENTS.keys()
    told: list[int] = []
    unpack(archive, lambda name: tmp_path / "out" / name, told.append)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert told[-1] == archive.stat().st_size
    assert built(tmp_path / "built", whole(CONTENTS)).exists()
    assert verified(tmp_path / "built").members == verified(archive).members
    assert archive.stat().st_mode & 0o777 == 0o600


def test_every_shorter_archive_is_refused(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    for place in range(len(data)):
        (tmp_path / "short").write_bytes(data[:place])
        with pytest.raises(BackupError):
            verified(tmp_path / "short")


def test_a_changed_archive_is_refused_unless_it_says_the_same(archive: Path, tmp_path: Path) -> None:
    data, whole = archive.read_bytes(), verified(archive)
    refused = 0
    for place in range(len(data)):
        (tmp_path / "changed").write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            assert verified(tmp_path / "changed") == whole  # a repetition may be packed in several ways
        except BackupError:
            refused += 1
    assert refused > len(data) * 0.9


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "member",
    [
        "../evil", "/etc/evil", "uploads/../../evil", "uploads/a/../b", "uploads/a/.hidden", "collections/../x.sqlite3",
        "collections/default/.new.sqlite3", "postgres/a.b.c.copy", "postgres/../x.copy", "other", "redis.jsonl/x",
        "uploads/a\n/job.json", link("uploads/a/job.json", tarfile.SYMTYPE), link(REDIS, tarfile.LNKTYPE),
        link("uploads/a/job.json", tarfile.CHRTYPE), link("uploads/a", tarfile.DIRTYPE),
        link("uploads/a/job.json", tarfile.FIFOTYPE),
    ],
)  # fmt: skip
def test_a_member_that_no_archive_has_is_refused(member: tarfile.TarInfo | str, tmp_path: Path) -> None:
    name = member if isinstance(member, str) else member.name
    path = built(tmp_path / "evil", [(HEAD, b"{}"), (member, b""), (MANIFEST, described({name: b""}))])
    with pytest.raises(BackupError, match=r"no archive has|no file"):
        unpack(path, lambda name: tmp_path / "out" / name)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([(HEAD, json.dumps({"format": FORMAT + 1}).encode()), ("later", b"")], "format 2, and this version reads"),
        ([("other", b"")], "no archive of"),
        ([], "no archive of"),
        (whole(CONTENTS)[:-1], "it ends too early"),
        ([*whole(CONTENTS), ("uploads/x/0", b"")], "behind the manifest"),
        ([*whole(CONTENTS)[:2], *whole(CONTENTS)[1:]], "no archive has"),
        ([*whole(CONTENTS)[:1], *whole(CONTENTS)[2:]], "redis.jsonl is not what the manifest says"),
        ([(HEAD, b"{}"), (REDIS, b"x"), (MANIFEST, described({REDIS: b"y"}))], "is not what the manifest says"),
        ([(HEAD, b"{}"), (MANIFEST, b"{}")], "damaged"),
        ([(HEAD, b"nonsense")], "damaged"),
    ],
)  # fmt: skip
def test_an_archive_that_is_not_whole_says_why(
    members: list[tuple[tarfile.TarInfo | str, bytes]], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BackupError, match=says):
        verified(built(tmp_path / "file", members))


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with gzip.open(tmp_path / "packed", "wb") as file:
        file.write(b"hello" * 1000)
    for name, says in (("text", "no archive"), ("packed", "damaged"), ("nowhere", "cannot be read"), (".", "read")):
        with pytest.raises(BackupError, match=says):
            verified(tmp_path / name)


def test_what_fails_leaves_no_archive(archive: Path, tmp_path: Path) -> None:
    before = archive.read_bytes()
    with pytest.raises(BackupError, match="exists already"), writing(archive, replace=False):
        raise AssertionError("nothing is written")
    with pytest.raises(BackupError, match="an archive has no such name"), writing(archive, replace=True) as writer:
        writer.add("../evil", archive)
    assert archive.read_bytes() == before
    assert list(tmp_path.iterdir()) == [archive]
    with writing(archive, replace=True) as writer:
        with pytest.raises(BackupError, match="Another backup writes"), writing(archive, replace=True):
            raise AssertionError("it waits for nobody")
        writer.end(manifest())
    assert verified(archive).members == {}
    assert list(tmp_path.iterdir()) == [archive]
