"""Unpack a data folder that an earlier version wrote, as if it had been written just now, in its new place."""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def facts_of(name: str) -> dict[str, Any]:
    """What the folder holds, as its maker was told over HTTP."""
    facts: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def thaw(name: str, folder: Path) -> dict[str, Any]:
    """Unpack `name` into `folder`, which is made. Returns its facts.

    Redis's log of commands holds times at which keys expire and paths of uploads. Both are moved, by the time since it
    was frozen and to the new folder; everything else stays as it was written.
    """
    facts = facts_of(name)
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    old, new = facts["data_dir"].encode(), str(folder).encode()
    since = int(time.time()) - facts["frozen"]
    for log in folder.glob("redis/appendonlydir/*.incr.aof"):
        moved = (_moved(command, since) for command in _commands(log.read_bytes()))
        log.write_bytes(b"".join(_written([word.replace(old, new) for word in command]) for command in moved))
    return facts


def _moved(command: list[bytes], seconds: int) -> list[bytes]:
    name = command[0].upper()
    if name == b"PEXPIREAT":
        return [*command[:2], b"%d" % (int(command[2]) + seconds * 1000), *command[3:]]
    if name == b"SET" and b"PXAT" in command[3:]:
        at = command.index(b"PXAT", 3) + 1
        return [*command[:at], b"%d" % (int(command[at]) + seconds * 1000), *command[at + 1 :]]
    if name == b"ZADD" and command[1].endswith(b":jobs"):  # read back to seven days ago
        return [*command[:2], b"%.6f" % (float(command[2]) + seconds), *command[3:]]
    return command


def _commands(log: bytes) -> Iterator[list[bytes]]:
    """The commands of an append-only file: `*COUNT`, then `$LENGTH` and as many bytes for each word."""
    at = 0

    def number() -> int:
        nonlocal at
        end = log.index(b"\r\n", at)
        value, at = int(log[at + 1 : end]), end + 2
        return value

    while at < len(log):
        command = []
        for _ in range(number()):
            length = number()
            command.append(log[at : at + length])
            at += length + 2
        yield command


def _written(command: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
