"""The messages of ingests, JSON only. Knows their shape; knows no Redis, no Celery and no documents."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from workers.broker.messages import Message


class IngestFile(Message):
    """A document on disk (`path`, from an upload) or in the message (`text`)."""

    name: str
    path: str | None = None
    text: str | None = None
    document_id: str | None = None
    title: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class IngestJob(Message):
    job_id: str
    tenant: str = "default"
    collection: str
    files: list[IngestFile]
    created: float
