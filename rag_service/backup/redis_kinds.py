"""Which keys in Redis an archive carries: all of `rag:…` but those that mean nothing to another run of the service.

A kind of key that a later version adds is carried unless `TRANSIENT` names it. Keys of Celery's messages are no keys of
`rag:…`: the records of answers and jobs say what is still to be done, and workers send lost messages again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from workers.broker import keys

BEGINNING = "rag:"
_ANY = "any"

TRANSIENT = {
    "heartbeats of workers": (keys.WORKERS, keys.WORKER_INFO),
    "leases of running answers and jobs": (keys.RUNNING, keys.INGEST_RUNNING),
    "queues of single workers": (keys.QUEUES,),
    "what the append-only file of this Redis still has": (keys.ERASED, keys.ERASED_PAUSE),
    "which run of this Redis has its jobs": (keys.INGEST_RECOVERED,),
    "claims on a session's next turn": (keys.session_claim(_ANY, _ANY),),
    "texts that somebody waits for a worker to embed": (
        keys.embed_queue(_ANY),
        keys.embed_request(_ANY),
        keys.embed_reply(_ANY),
    ),
    "made again from the answers": (keys.UNFINISHED,),
    "made again from the jobs on disk": (keys.jobs_waiting(_ANY),),
}
"""Keys that are not carried, by the reason; `any` stands for any name."""


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    parts = (":".join("[^:]+" if part == _ANY else re.escape(part) for part in name.split(":")) for name in names)
    return re.compile("|".join(parts))


_TRANSIENT = _pattern(name for names in TRANSIENT.values() for name in names)
_ANSWER = _pattern([keys.answer(_ANY, _ANY)])
_SESSION = _pattern([keys.session(_ANY, _ANY)])
_JOB = _pattern([keys.job(_ANY, _ANY)])


def is_carried(key: str) -> bool:
    """Whether an archive has a key of this name."""
    return key.startswith(BEGINNING) and not _TRANSIENT.fullmatch(key)


def answer_of(key: str) -> tuple[str, str] | None:
    """Owner and id of the answer whose record, or part of it, a key is."""
    return _named(_ANSWER, key)


def session_of(key: str) -> tuple[str, str] | None:
    """Owner and id of the session that a key belongs to."""
    return _named(_SESSION, key)


def is_answer(key: str) -> bool:
    """Whether it is the record itself."""
    return bool(_ANSWER.fullmatch(key))


def is_session(key: str) -> bool:
    return bool(_SESSION.fullmatch(key))


def is_job(key: str) -> bool:
    return bool(_JOB.fullmatch(key))


def owner_of(key: str) -> str | None:
    """The owner whose key it is; None for keys of the service, whose names may look the same as an owner's."""
    parts = key.split(":")
    return parts[1] if len(parts) > 2 else None


def _named(pattern: re.Pattern[str], key: str) -> tuple[str, str] | None:
    first = ":".join(key.split(":")[:4])
    if not pattern.fullmatch(first):
        return None
    _, owner, _, name = first.split(":")
    return owner, name
