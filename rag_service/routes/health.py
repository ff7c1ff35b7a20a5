"""Liveness, readiness, metrics, and the page at /."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, PlainTextResponse

from rag_service.deps import OpenPipelineDep
from rag_service.errors import Unavailable
from rag_service.pipeline import Pipeline
from workers.queue import QueueUnavailable

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(pipeline: OpenPipelineDep) -> dict[str, Any]:
    """Queries can be answered: Redis, a worker and the index are there. 503 says what is missing."""
    checks = ready_checks(pipeline)
    missing = {name: reason for name, reason in checks.items() if reason != "ok"}
    if missing:
        reasons = " ".join(f"{name}: {reason}." for name, reason in missing.items())
        raise Unavailable(f"Not ready. {reasons}", "not_ready", retry_after=5, checks=checks)
    return {"status": "ready", "checks": checks}


def ready_checks(pipeline: Pipeline) -> dict[str, str]:
    """`ok`, or what is wrong, for redis, worker and index."""
    checks = {"redis": "ok", "worker": "ok", "index": "ok"}
    try:
        pipeline.queue.ping()
        workers = pipeline.queue.workers()
        if not workers:
            checks["worker"] = "none is running; start one with `rag worker`"
        elif not pipeline.admission.matching(workers):
            checks["worker"] = "those running serve another model; start one with the API's RAG_MODEL"
    except QueueUnavailable as error:
        checks["redis"] = str(error)
        checks["worker"] = "unknown while Redis is away"
    try:
        pipeline.library.collections()
    except OSError as error:
        checks["index"] = f"the data folder cannot be read ({error.strerror})"
    return checks


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(pipeline: OpenPipelineDep) -> PlainTextResponse:
    """Prometheus text format."""
    lines = ["# HELP rag_redis_up Whether Redis answers.", "# TYPE rag_redis_up gauge"]
    try:
        workers, depth = pipeline.queue.workers(), pipeline.queue.depth()
    except QueueUnavailable:
        lines.append("rag_redis_up 0")
    else:
        lines += ["rag_redis_up 1", "# HELP rag_workers Workers heard of lately.", "# TYPE rag_workers gauge"]
        lines += [f"rag_workers {len(workers)}", "# HELP rag_queue_depth Jobs that no worker has taken yet."]
        lines += ["# TYPE rag_queue_depth gauge"]
        lines += [f'rag_queue_depth{{queue="{name}"}} {count}' for name, count in depth.items()]
        lines += _kv_cache(workers)
    lines += ["# HELP rag_answers_total Answers asked for in this process.", "# TYPE rag_answers_total counter"]
    lines.append(f"rag_answers_total {pipeline.totals.asked}")
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _kv_cache(workers: list[dict[str, Any]]) -> list[str]:
    """Lines on the keys and values of earlier turns that each worker keeps."""
    states = {worker["name"]: worker["kv_cache"] for worker in workers if "kv_cache" in worker}
    lines = []
    for metric, field, kind, meaning in (
        ("rag_kv_cache_bytes", "bytes", "gauge", "Keys and values of earlier turns that a worker keeps."),
        ("rag_kv_cache_entries", "entries", "gauge", "Sessions, and system prompts, that they are of."),
        ("rag_kv_cache_evicted_total", "evicted", "counter", "Those that left for want of room."),
        ("rag_prompt_tokens_total", "prompt_tokens", "counter", "Prompt tokens of a worker's answers."),
        ("rag_prompt_tokens_reused_total", "reused_tokens", "counter", "Those of them that it had kept."),
    ):
        lines += [f"# HELP {metric} {meaning}", f"# TYPE {metric} {kind}"]
        lines += [f'{metric}{{worker="{name}"}} {state[field]}' for name, state in states.items()]
    return lines


@router.get("/", include_in_schema=False)
def page() -> HTMLResponse:
    return HTMLResponse(files("rag_service").joinpath("web/index.html").read_text(encoding="utf-8"))
