"""One key in Redis as a line of JSON: its type, its value, and when it expires.

Values are kept by type and not as DUMP gives them, which another version of Redis, or Valkey, may not read. Pure.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from rag_service.backup.errors import BackupError

Type: TypeAlias = Literal["string", "hash", "list", "set", "zset", "stream"]
TYPES: tuple[Type, ...] = get_args(Type)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value.

    Attributes:
        expires_ms: Unix time in milliseconds; None for never.
        value: a string's bytes; a list's or set's members; pairs of a hash (field, value) or sorted set (member,
            score); pairs of a stream's entry id and the list of its fields and values. All are bytes.
    """

    key: str
    type: Type
    expires_ms: int | None
    value: Any

    @property
    def fields(self) -> dict[str, str]:
        """Those of a hash whose values are text; {} for another type."""
        if self.type != "hash":
            return {}
        return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in self.value}

    def dumps(self) -> str:
        value = {"key": self.key, "type": self.type, "expires_ms": self.expires_ms, "value": _written(self.value)}
        return json.dumps(value, separators=(",", ":"))


def loads(line: str) -> Entry:
    """The entry of a line. Raises BackupError for one that is none."""
    try:
        found = json.loads(line)
        key, kind, expires = found["key"], found["type"], found["expires_ms"]
        if not isinstance(key, str) or kind not in TYPES or not (expires is None or isinstance(expires, int)):
            raise ValueError(f"{kind!r} is not a type of keys")
        return Entry(key, kind, expires, _read(found["value"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BackupError(f"The archive has a key that cannot be read ({error}); nothing was changed.") from error


def parsed(key: str, kind: str, expires_ms: int | None, reply: Any) -> Entry:
    """The entry of what the script of `redis_reading` returns. Raises BackupError for a type that has no form here."""
    if kind not in TYPES:
        raise BackupError(
            f"The key {key!r} in Redis has the type {kind}, which a backup cannot carry. The service makes none of "
            "that type; remove the key, or give the service a Redis of its own."
        )
    if kind in ("hash", "zset"):
        reply = list(zip(reply[::2], reply[1::2], strict=True))
    return Entry(key, kind, expires_ms, reply)


def _written(value: Any) -> Any:
    if not isinstance(value, bytes):
        return [_written(part) for part in value]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _read(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    return [_read(part) for part in value]
