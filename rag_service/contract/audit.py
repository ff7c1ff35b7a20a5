"""The audit log, as the API and `rag audit` show it: who changed what, without texts and keys."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rag_service.contract.json_body import ResponseBody

Action = Literal[
    "collection.create",
    "collection.delete",
    "collection.rename",
    "documents.ingest",
    "document.delete",
    "job.cancel",
    "key.create",
    "key.revoke",
    "person.sign_in",
    "person.sign_out",
]


class AuditEntry(ResponseBody):
    """A change, who made it, and what it was made to."""

    id: str
    time: float = Field(description="When it was accepted, in Unix time, seconds.")
    action: Action
    person: str = Field(description="Who made it; empty for the local key, the operator and requests without a key.")
    key: str = Field(
        description="Id of the API key that it was made with; `local` for the local key, `operator` for `rag keys`, "
        "empty without a key."
    )
    collection: str | None = None
    document_id: str | None = Field(
        default=None, description="Of a deleted document: `sha256:` and the first 16 digits of its id's SHA-256."
    )
    job_id: str | None = Field(default=None, description="Of an ingest, or of its cancellation.")
    key_id: str | None = Field(
        default=None, description="Of the key that was created or revoked, or stands for a sign-in."
    )
    name: str | None = Field(
        default=None,
        description="Of a person who signed in at the OpenID provider: how the provider names them. Of a renamed "
        "collection: its new name.",
    )


class AuditPage(ResponseBody):
    entries: list[AuditEntry]
    next: str | None = Field(default=None, description="Value of `before` for the next page; null on the last page.")
