"""/v1/jobs: the ingests there are, progress of one, and cancelling it."""

from __future__ import annotations

from fastapi import APIRouter

from rag_service.deps import PipelineDep
from rag_service.ids import JobPath, PageSize, unknown_job
from rag_service.pipeline import Pipeline
from rag_service.refusals import refusals
from rag_service.schemas import Cancelled, JobList, JobProgress

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("", responses=refusals(422))
def list_jobs(pipeline: PipelineDep, limit: PageSize = 100) -> JobList:
    """Ingests of the last seven days, the latest first."""
    return JobList(jobs=pipeline.queue.jobs(pipeline.tenant, limit))


@router.get("/{job_id}", responses=refusals(404))
def read(job_id: JobPath, pipeline: PipelineDep) -> JobProgress:
    """How an ingest goes: documents done of the total, and failures by name and reason."""
    return _job(job_id, pipeline)


@router.delete("/{job_id}", responses=refusals(404))
def cancel(job_id: JobPath, pipeline: PipelineDep) -> Cancelled:
    """Stop an ingest; documents that are in stay. Nothing happens to one that ended."""
    _job(job_id, pipeline)
    return Cancelled(cancelled=pipeline.queue.cancel_job(pipeline.tenant, job_id))


def _job(job_id: str, pipeline: Pipeline) -> JobProgress:
    progress = pipeline.queue.job(pipeline.tenant, job_id)
    if progress is None:
        raise unknown_job(job_id)
    return progress
