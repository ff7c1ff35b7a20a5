"""How far answers and ingest jobs are, in messages and in responses.

Imports pydantic only, because the Python client loads it too.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FinishReason = Literal["stop", "length", "repetition", "cancelled", "error"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class _Part(BaseModel):
    """Fields of a newer service are ignored: a client may be older than the service it asks."""

    model_config = ConfigDict(frozen=True)


class IngestFailure(_Part):
    name: str
    reason: str


class JobProgress(_Part):
    """How far an ingest job is."""

    job_id: str
    status: JobStatus
    done: int = 0
    total: int = 0
    added: int = Field(default=0, description="Documents that were new; known once the job has ended.")
    replaced: int = Field(default=0, description="Documents that took the place of an earlier version; likewise.")
    unchanged: int = Field(default=0, description="Documents that the collection had as they are; likewise.")
    failures: list[IngestFailure] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list, description="What one should know of the documents that went in.")


class ShownJob(JobProgress):
    """The response of `GET /v1/jobs/{id}`."""

    collection: str = Field(default="", description="The collection that its documents go into.")


class ListedJob(JobProgress):
    """A job in the response of `GET /v1/jobs`."""

    collection: str
    created: float
