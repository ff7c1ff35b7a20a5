"""One fork server for all tests of a process: Python has but one, so it must have read what any of them needs.

A worker that has to read torch first keeps both cores busy for seconds, and others' heartbeats late.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

PRELOADED = [
    "tests.support.tiny_models",
    "rag_service.main",
    "tests.support.hash_embedder",
    "transformers",
    "uvicorn",
    "workers.worker.main",
    "workers.worker.tasks",
    "tests.support.fake_workers",
]


def fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
