"""What `rag doctor` finds out about one requirement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The state of one requirement. `fix` says what to do; "" for nothing. A requirement that is `ok` can have one."""

    what: str
    ok: bool
    found: str
    fix: str = ""
