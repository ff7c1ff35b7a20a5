"""Names of the keys in Redis. Everything of a tenant lies below `rag:{tenant}:`."""

from __future__ import annotations

WORKERS = "rag:workers"
"""Sorted set: worker name by the Redis time of its last heartbeat, in seconds."""
WORKER_INFO = "rag:workers:info"
"""Hash: worker name to a JSON object (model, tokenizer, window, drafter)."""

API_KEYS = "rag:api_keys"
"""Hash: id of an API key to a JSON object (name, tenant, sha256, created)."""

RUNNING = "rag:running"
"""Hash: running task (`name tenant id`) to the name of the worker that has it, or `resend NAME` while that one sends it
again."""


QUEUES = "rag:queues"
"""Sorted set: workers' own queues by the time that something was last sent to them."""


def _part(name: str) -> str:
    """A part of a key. Raises ValueError for one that could name another key."""
    if any(character == ":" or character.isspace() for character in name):
        raise ValueError(f"{name[:80]!r} is no id: ids have no colon and no white space")
    return name


def answer(tenant: str, answer_id: str) -> str:
    """Hash: request, status, streamed, epoch, result or error."""
    return f"rag:{_part(tenant)}:answer:{_part(answer_id)}"


def answer_events(tenant: str, answer_id: str) -> str:
    """Stream: one entry per event, its JSON in the field `event`."""
    return f"{answer(tenant, answer_id)}:events"


def answer_cancel(tenant: str, answer_id: str) -> str:
    return f"{answer(tenant, answer_id)}:cancel"


def versions(tenant: str, root: str) -> str:
    """List: ids of an answer's versions in order, the first one's (`root`) first. Absent until there are two."""
    return f"{answer(tenant, root)}:versions"


def session(tenant: str, session_id: str) -> str:
    """Hash: created, updated, and of the session's ids: tokenizer (its hash), epoch; worker: who had
    its last answer; rewrite_of, rewrite: digest of the question that was rewritten last, and what to."""
    return f"rag:{_part(tenant)}:session:{_part(session_id)}"


def session_turns(tenant: str, session_id: str) -> str:
    """List of TurnRecord as JSON."""
    return f"{session(tenant, session_id)}:turns"


def session_ids(tenant: str, session_id: str) -> str:
    """String: the ids of the session's prompt and last answer, little-endian int32."""
    return f"{session(tenant, session_id)}:ids"


def session_parts(tenant: str, session_id: str) -> str:
    """List: the segments that tile those ids, each as JSON [kind, key, tokens]."""
    return f"{session(tenant, session_id)}:parts"


def session_answers(tenant: str, session_id: str) -> str:
    """Set of the ids of every answer that was asked for in the session."""
    return f"{session(tenant, session_id)}:answers"


def rewrite(tenant: str, digest: str) -> str:
    """String: what a question was rewritten to, of a conversation outside sessions."""
    return f"rag:{_part(tenant)}:rewrite:{_part(digest)}"


def session_claim(tenant: str, session_id: str) -> str:
    """The id of the answer that the session's next turn belongs to; expires."""
    return f"{session(tenant, session_id)}:claim"


def sessions(tenant: str) -> str:
    """Sorted set: session ids by the time of their last change."""
    return f"rag:{tenant}:sessions"


def jobs(tenant: str) -> str:
    """Sorted set: ids of ingest jobs by the time they were asked for; those that expired are cut off as it is read."""
    return f"rag:{tenant}:jobs"


def job(tenant: str, job_id: str) -> str:
    """Hash: request, progress, collection, created."""
    return f"rag:{_part(tenant)}:job:{_part(job_id)}"


def job_cancel(tenant: str, job_id: str) -> str:
    return f"{job(tenant, job_id)}:cancel"


def stores(tenant: str) -> str:
    """Set: names of the tenant's stores of earlier answers."""
    return f"rag:{tenant}:stores"


def store_answers(tenant: str, name: str) -> str:
    """Hash: answer id to its ids as a JSON list."""
    return f"rag:{_part(tenant)}:store:{name}"


def store_order(tenant: str, name: str) -> str:
    """Sorted set: answer ids by the time they were added."""
    return f"{store_answers(tenant, name)}:order"


def passage_ids(tenant: str) -> str:
    """Hash: `tokenizer:content hash` of a passage to its ids, little-endian int32."""
    return f"rag:{tenant}:passage_ids"


def passage_order(tenant: str) -> str:
    """Sorted set: the same names by the time they were added."""
    return f"{passage_ids(tenant)}:order"
