"""Liveness, readiness and metrics."""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio.to_thread
from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from rag_service.answering.pipeline import Pipeline
from rag_service.answering.served_model import described
from rag_service.api.deps import SharedPipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.metrics import Value, exposition
from rag_service.errors import Unavailable
from retriever import StoreUnavailable
from workers.errors import DatabaseUnavailable
from workers.ingests.ledger import JobCounts
from workers.sessions.costs import KINDS
from workers.sessions.queue import QueueUnavailable

log = logging.getLogger(__name__)
router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process responds."""
    return {"status": "ok"}


@router.get("/readyz", responses=error_responses(503))
async def readyz(pipeline: SharedPipelineDep) -> dict[str, Any]:
    """Whether queries can be answered: Redis, a worker and the index are ready. 503 says what is missing.

    `model` names the target model; `toy` says that it is for tests only.
    """
    # Separate threads, so that probes do not wait for requests.
    checks = await anyio.to_thread.run_sync(ready_checks, pipeline, limiter=pipeline.probe_threads)
    missing = {name: reason for name, reason in checks.items() if reason != "ok"}
    if missing:
        reasons = " ".join(f"{name}: {reason}." for name, reason in missing.items())
        raise Unavailable(f"Not ready. {reasons}", "not_ready", retry_after=5, checks=checks)
    return {"status": "ready", "checks": checks, "model": described(pipeline.settings)}


def ready_checks(pipeline: Pipeline) -> dict[str, str]:
    """The state of redis, worker and index: `ok`, or what is wrong."""
    checks = {"redis": "ok", "worker": "ok", "index": "ok"}
    try:
        pipeline.queue.ping()
        workers = pipeline.queue.workers()
        if not workers:
            checks["worker"] = (
                "no worker is ready: one that was just started is still loading its model; else start one with "
                "`rag worker`"
            )
        elif not pipeline.admission.matching(workers):
            setting = "RAG_MODEL" if pipeline.settings.engine == "decoder" else "RAG_ENGINE"
            checks["worker"] = f"all workers serve another model; start one with the API's {setting}"
    except QueueUnavailable as error:
        checks["redis"] = str(error)
        checks["worker"] = "unknown while Redis does not answer"
    if pipeline.settings.store is not None:
        try:
            pipeline.ingests.counts()
        except QueueUnavailable as error:
            checks["store"] = str(error)
    if pipeline.warming:
        checks["index"] = "the embedding model is still loading"
    try:
        pipeline.library.collections()
    except OSError as error:
        checks["index"] = f"the data folder cannot be read ({error.strerror})"
    except StoreUnavailable:
        checks["index"] = "the database of the collections cannot be used; `rag doctor` says why"
    return checks


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(pipeline: SharedPipelineDep) -> PlainTextResponse:
    """The metrics in Prometheus's text format."""
    values: dict[str, Value] = {"rag_answers_total": pipeline.totals.answers}
    try:
        workers, answers = pipeline.queue.workers(), pipeline.queue.depth()
        costs = pipeline.costs.totals()
    except QueueUnavailable:
        values["rag_redis_up"] = 0
        return PlainTextResponse(exposition(values), media_type=CONTENT_TYPE_PLAIN_0_0_4)
    depth: dict[str, int | float] = {"generate": answers}
    values |= {"rag_redis_up": 1, "rag_workers": len(workers), "rag_queue_depth": depth, **_kv_cache(workers)}
    tokens: dict[tuple[str, ...], int | float] = {
        (cost.engine, cost.upstream, cost.model, kind): getattr(cost.counts, kind) for cost in costs for kind in KINDS
    }
    values["rag_tokens_total"] = tokens
    try:
        jobs = pipeline.ingests.counts()
    except DatabaseUnavailable:
        log.warning("the metrics lack the ingests: PostgreSQL cannot be reached")
    except QueueUnavailable:
        values = {"rag_answers_total": pipeline.totals.answers, "rag_redis_up": 0}
    else:
        depth["ingest"] = jobs.jobs["queued"]
        values |= _ingest_jobs(jobs)
    return PlainTextResponse(exposition(values), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _ingest_jobs(counts: JobCounts) -> dict[str, dict[str, int | float]]:
    now = time.time()
    return {
        "rag_ingest_jobs": {str(status): jobs for status, jobs in counts.jobs.items()},
        "rag_ingest_jobs_oldest_seconds": {
            status: round(max(0.0, now - counts.oldest.get(status, now)), 1) for status in counts.jobs
        },
        "rag_ingest_jobs_ended_total": {str(status): jobs for status, jobs in counts.ended.items()},
    }


def _kv_cache(workers: list[dict[str, Any]]) -> dict[str, dict[str, int | float]]:
    """Each worker's report about the keys and values of earlier turns that it keeps."""
    states = {worker["name"]: worker["kv_cache"] for worker in workers if "kv_cache" in worker}
    fields = {
        "rag_kv_cache_bytes": "bytes",
        "rag_kv_cache_entries": "entries",
        "rag_kv_cache_evicted_total": "evicted",
        "rag_prompt_tokens_total": "prompt_tokens",
        "rag_prompt_tokens_reused_total": "reused_tokens",
    }
    return {metric: {name: state[field] for name, state in states.items()} for metric, field in fields.items()}
