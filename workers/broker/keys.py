"""Names of the keys in Redis. Everything of a tenant lies below `rag:{tenant}:`, or `rag:{tenant}@{person}:`.

Collections' jobs, stores and passages belong to the tenant, sessions and answers to an owner: the tenant's person.
"""

from __future__ import annotations

GENERATE_TASK = "rag.generate_answer"

WORKERS = "rag:workers"
"""Sorted set: worker name by the Redis time of its last heartbeat, in seconds."""
WORKER_INFO = "rag:workers:info"
"""Hash: worker name to a JSON object (model, tokenizer, window, drafter)."""

API_KEYS = "rag:api_keys"
"""Hash: id of an API key to a JSON object (name, tenant, person, role, collections, sha256, created)."""

RUNNING = "rag:running"
"""Hash: running task (`name owner id`, of ingests `name tenant id`) to the name of the worker that has it, or
`resend NAME` while that one sends it again."""

UNFINISHED = "rag:unfinished"
"""Set: tasks of answers (as above) that were asked for; those that ended are taken out with a worker's heartbeat."""

INGEST_TENANTS = "rag:ingest:tenants"
"""Sorted set: tenants that ever ingested, by the turn at which one of their jobs was taken last."""
INGEST_TURN = "rag:ingest:turn"
"""How many ingest jobs were taken."""
INGEST_RUNNING = "rag:ingest:running"
"""Hash: running ingest job (`tenant id`) to `worker collection`."""
INGEST_RECOVERED = "rag:ingest:recovered"
"""Id of the run of the Redis server for which the jobs on disk were looked through."""
INGEST_ENDED = "rag:ingest:ended"
"""Hash: how ingest jobs ended to how many did."""

QUEUES = "rag:queues"
"""Sorted set: workers' own queues by the time that something was last sent to them."""


def owner(tenant: str, person: str) -> str:
    """Whose sessions and answers: neither name has an `@`. Without a person those of the tenant at large."""
    return f"{tenant}@{person}" if person else tenant


def tenant_of(owner: str) -> str:
    """The tenant that an owner belongs to."""
    return owner.partition("@")[0]


def _part(name: str) -> str:
    """A part of a key. Raises ValueError for one that could name another key."""
    if any(character == ":" or character.isspace() for character in name):
        raise ValueError(f"{name[:80]!r} is no id: ids have no colon and no white space")
    return name


def answer(owner: str, answer_id: str) -> str:
    """Hash: request, status, streamed, epoch, result or error."""
    return f"rag:{_part(owner)}:answer:{_part(answer_id)}"


def answer_task(owner: str, answer_id: str) -> str:
    """The member of UNFINISHED, and the field of RUNNING, that an answer has."""
    return f"{GENERATE_TASK} {_part(owner)} {_part(answer_id)}"


def answer_events(owner: str, answer_id: str) -> str:
    """Stream: one entry per event, its JSON in the field `event`."""
    return f"{answer(owner, answer_id)}:events"


def answer_cancel(owner: str, answer_id: str) -> str:
    return f"{answer(owner, answer_id)}:cancel"


def versions(owner: str, root: str) -> str:
    """List: ids of an answer's versions in order, the first one's (`root`) first. Absent until there are two."""
    return f"{answer(owner, root)}:versions"


def session(owner: str, session_id: str) -> str:
    """Hash: created, updated, and of the session's ids: tokenizer (its hash), epoch; worker: who had
    its last answer; rewrite_of, rewrite: digest of the question that was rewritten last, and what to."""
    return f"rag:{_part(owner)}:session:{_part(session_id)}"


def session_turns(owner: str, session_id: str) -> str:
    """List of TurnRecord as JSON."""
    return f"{session(owner, session_id)}:turns"


def session_texts(owner: str, session_id: str) -> str:
    """Hash: what the records of the session's answers and turns name (`sessions.texts`), as JSON by its digest."""
    return f"{session(owner, session_id)}:texts"


def session_ids(owner: str, session_id: str) -> str:
    """String: the ids of the session's prompt and last answer, little-endian int32."""
    return f"{session(owner, session_id)}:ids"


def session_parts(owner: str, session_id: str) -> str:
    """List: the segments that tile those ids, each as JSON [kind, key, tokens]."""
    return f"{session(owner, session_id)}:parts"


def session_answers(owner: str, session_id: str) -> str:
    """Set of the ids of every answer that was asked for in the session."""
    return f"{session(owner, session_id)}:answers"


def rewrite(owner: str, digest: str) -> str:
    """String: what a question was rewritten to, of a conversation outside sessions."""
    return f"rag:{_part(owner)}:rewrite:{_part(digest)}"


def session_claim(owner: str, session_id: str) -> str:
    """The id of the answer that the session's next turn belongs to; expires."""
    return f"{session(owner, session_id)}:claim"


def sessions(owner: str) -> str:
    """Sorted set: session ids by the time of their last change."""
    return f"rag:{owner}:sessions"


def jobs(tenant: str) -> str:
    """Sorted set: ids of ingest jobs by the time they were asked for; those that expired are cut off as it is read."""
    return f"rag:{tenant}:jobs"


def job(tenant: str, job_id: str) -> str:
    """Hash: status, progress, collection, created; while it runs worker, attempts, and cancel once asked to stop."""
    return f"rag:{_part(tenant)}:job:{_part(job_id)}"


def jobs_waiting(tenant: str) -> str:
    """List: ids of the jobs that no worker has taken yet, in order."""
    return f"{jobs(tenant)}:waiting"


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
