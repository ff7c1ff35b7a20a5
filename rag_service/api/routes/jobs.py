"""/v1/jobs: list ingests, read their progress, cancel them."""

from __future__ import annotations

from fastapi import APIRouter

from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import EDITOR, READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.contract.ids import JobPath, PageSize, unknown_job
from rag_service.contract.responses import Cancelled, JobList, ShownJob

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[READER])

MOST_JOBS = 100_000
"""Most jobs that are searched for those of the collections that a key can access."""


@router.get("", responses=error_responses(422))
def list_jobs(pipeline: PipelineDep, limit: PageSize = 100) -> JobList:
    """List the ingests of the last seven days, newest first."""
    principal = pipeline.principal
    most = limit if principal.collections is None else MOST_JOBS
    jobs = pipeline.ingests.jobs(principal.tenant, most)
    return JobList(jobs=[job for job in jobs if principal.sees(job.collection)][:limit])


@router.get("/{job_id}", responses=error_responses(404))
def read(job_id: JobPath, pipeline: PipelineDep) -> ShownJob:
    """Read the progress of an ingest: documents done, their total, and failures by name and reason."""
    return _job(job_id, pipeline)


@router.delete("/{job_id}", dependencies=[EDITOR], responses=error_responses(404))
def cancel(job_id: JobPath, pipeline: PipelineDep) -> Cancelled:
    """Cancel an ingest. Documents ingested so far stay; an ingest that has ended does not change."""
    named = {"collection": _job(job_id, pipeline).collection, "job_id": job_id}
    with pipeline.audit.recording(pipeline.principal, "job.cancel", **named) as withdraw:
        if not (cancelled := pipeline.ingests.cancel(pipeline.principal.tenant, job_id)):
            withdraw()
    return Cancelled(cancelled=cancelled)


def _job(job_id: str, pipeline: Pipeline) -> ShownJob:
    principal = pipeline.principal
    progress = pipeline.ingests.job(principal.tenant, job_id)
    collection = pipeline.ingests.collection(principal.tenant, job_id) or ""
    if progress is None or not principal.sees(collection):
        raise unknown_job(job_id)
    return ShownJob(**progress.model_dump(), collection=collection)
