"""Names of the keys in Redis. A tenant's keys begin with `rag:{tenant}:` or `rag:{tenant}@{person}:`.

Jobs, stores and passages of collections belong to the tenant; sessions and answers belong to an owner, a person of it.
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
"""Hash: running answer (`name owner id`) to the name of the worker that has it, or
`resend NAME` while that worker sends it again."""

ERASED = "rag:erased"
"""There if something was erased since Redis's append-only file was last rewritten."""

ERASED_PAUSE = "rag:erased:pause"
"""There while the file is not to be rewritten again."""

UNFINISHED = "rag:unfinished"
"""Set: tasks of queued and running answers (as above); a worker's heartbeat removes those that ended."""

INGEST_TENANTS = "rag:ingest:tenants"
"""Sorted set: tenants that ever ingested, by the number of their last job taken."""
INGEST_TURN = "rag:ingest:turn"
"""Number of ingest jobs taken so far."""
INGEST_RUNNING = "rag:ingest:running"
"""Hash: running ingest job (`tenant id`) to `worker collection`."""
INGEST_RECOVERED = "rag:ingest:recovered"
"""Id of the Redis server's run after which the jobs on disk were last recovered."""
INGEST_ENDED = "rag:ingest:ended"
"""Hash: final status of ingest jobs to their number."""

USAGE_TENANTS = "rag:usage:tenants"
"""Set: tenants that ever had an answer whose tokens were counted."""
USAGE_TOTALS = "rag:usage:totals"
"""Hash: tokens of all tenants since the service began, with the fields of `usage`."""

AUDIT_TENANTS = "rag:audit:tenants"
"""Set: tenants that ever had an entry in their audit log."""

FEEDBACK = "rag:feedback"
"""Sorted set: answers with feedback (`owner id`) by the time at which it expires."""

QUEUES = "rag:queues"
"""Sorted set: workers' own queues by the time of the last message sent to them."""


def embed_queue(model: str) -> str:
    """List: ids of requests to embed texts with the model that the digest `model` stands for; expires."""
    return f"rag:embedding:queue:{_part(model)}"


def embed_request(request_id: str) -> str:
    """String: an EmbedRequest as JSON; expires when nobody waits for it any more."""
    return f"rag:embedding:request:{_part(request_id)}"


def embed_reply(request_id: str) -> str:
    """List: one EmbedReply as JSON; expires."""
    return f"rag:embedding:reply:{_part(request_id)}"


def owner(tenant: str, person: str) -> str:
    """The owner of sessions and answers; the tenant itself without a person. Neither name contains an `@`."""
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
    """Hash: request, status, streamed, epoch, lost (how many workers died over it), result or error."""
    return f"rag:{_part(owner)}:answer:{_part(answer_id)}"


def answer_task(owner: str, answer_id: str) -> str:
    """The member of UNFINISHED, and the field of RUNNING, that an answer has."""
    return f"{GENERATE_TASK} {_part(owner)} {_part(answer_id)}"


def answer_events(owner: str, answer_id: str) -> str:
    """Stream: one entry per event, its JSON in the field `event`."""
    return f"{answer(owner, answer_id)}:events"


def answer_cancel(owner: str, answer_id: str) -> str:
    return f"{answer(owner, answer_id)}:cancel"


def feedback(owner: str, answer_id: str) -> str:
    """String: what a person says of an answer, with the answer, as JSON (`sessions.feedback`); expires."""
    return f"rag:{_part(owner)}:feedback:{_part(answer_id)}"


def feedback_member(owner: str, answer_id: str) -> str:
    """The member of FEEDBACK that an answer has."""
    return f"{_part(owner)} {_part(answer_id)}"


def versions(owner: str, root: str) -> str:
    """List: ids of an answer's versions in order, the first one's (`root`) first. Absent until there are two."""
    return f"{answer(owner, root)}:versions"


def session(owner: str, session_id: str) -> str:
    """Hash: created, updated; tokenizer (its hash) and epoch of the session's ids; worker: the last answer's;
    rewrite_of, rewrite: digest of the last rewritten question, and its rewrite."""
    return f"rag:{_part(owner)}:session:{_part(session_id)}"


def session_turns(owner: str, session_id: str) -> str:
    """List of TurnRecord as JSON."""
    return f"{session(owner, session_id)}:turns"


def session_texts(owner: str, session_id: str) -> str:
    """Hash: digest to JSON of what the session's answers and turns refer to (`sessions.record_texts`)."""
    return f"{session(owner, session_id)}:texts"


def session_ids(owner: str, session_id: str) -> str:
    """String: the ids of the session's prompt and last answer, little-endian int32."""
    return f"{session(owner, session_id)}:ids"


def session_parts(owner: str, session_id: str) -> str:
    """List: the segments that tile those ids, each as JSON [kind, key, tokens]."""
    return f"{session(owner, session_id)}:parts"


def session_answers(owner: str, session_id: str) -> str:
    """Set: ids of all answers of the session."""
    return f"{session(owner, session_id)}:answers"


def rewrite(owner: str, digest: str) -> str:
    """String: the rewrite of a question outside sessions."""
    return f"rag:{_part(owner)}:rewrite:{_part(digest)}"


def session_claim(owner: str, session_id: str) -> str:
    """String: id of the answer that the session's next turn belongs to; expires."""
    return f"{session(owner, session_id)}:claim"


def sessions(owner: str) -> str:
    """Sorted set: session ids by the time of their last change."""
    return f"rag:{owner}:sessions"


def usage(tenant: str, day: str) -> str:
    """Hash: a JSON list [engine, model server or "", model, kind] to its number of tokens on a day in UTC; expires."""
    return f"rag:{_part(tenant)}:usage:{_part(day)}"


def audit(tenant: str) -> str:
    """Stream: who changed what of the tenant (action, person, key, and names and ids of what was changed); expires."""
    return f"rag:{_part(tenant)}:audit"


def sign_in(tenant: str, digest: str) -> str:
    """String: id of the API key that a sign-in stands for, by the SHA-256 of its token (`access.sign_ins`); expires."""
    return f"rag:{_part(tenant)}:sign_in:{_part(digest)}"


def sign_in_attempt(tenant: str, digest: str) -> str:
    """String: there after an attempt at the OpenID provider signed somebody in, by its nonce's SHA-256; expires."""
    return f"rag:{_part(tenant)}:sign_in_attempt:{_part(digest)}"


def jobs(tenant: str) -> str:
    """Sorted set: ids of ingest jobs by the time of their request; reading it removes expired ones."""
    return f"rag:{tenant}:jobs"


def job(tenant: str, job_id: str) -> str:
    """Hash: status, progress, collection, created; while it runs worker, attempts, and cancel once requested."""
    return f"rag:{_part(tenant)}:job:{_part(job_id)}"


def jobs_waiting(tenant: str) -> str:
    """List: ids of the jobs that no worker has taken yet, in order."""
    return f"{jobs(tenant)}:waiting"


def renames(tenant: str) -> str:
    """Sorted set: renamed collections (JSON: name, new name, a number of its own) by the time; expires."""
    return f"rag:{_part(tenant)}:renames"


def stores(tenant: str) -> str:
    """Set: names of the tenant's stores of earlier answers."""
    return f"rag:{tenant}:stores"


def jobs_with_names(tenant: str) -> str:
    """Set: ids of the ended jobs whose progress names documents."""
    return f"{jobs(tenant)}:names"


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
