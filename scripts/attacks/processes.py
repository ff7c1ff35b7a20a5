"""Processes that die: Redis, the worker, `rag up` itself."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

from service import expect, until
from stack import START_S, Stack


def redis_dies(stack: Stack) -> None:
    """A killed private Redis restarts on the same socket with its data, and rag up reports it."""
    session = {
        "question": "What is there?",
        "session_id": "before-redis",
        "max_tokens": 2,
        "retrieval": {"mode": "none"},
    }
    expect(stack.service.ask("POST", "/v1/query", session), 200)
    stack.kill("redis|valkey")
    until(lambda: stack.service.ask("GET", "/readyz").status == 200 and len(_turns(stack)) == 1, "the session", START_S)
    assert "Redis" in stack.output.read_text()
    until(lambda: stack.service.ask("POST", "/v1/query", session).status == 200, "an answer", START_S)


def workers_that_are_gone(stack: Stack) -> None:
    """A killed worker is replaced, and its entry disappears."""
    before = set(stack.workers())
    stack.kill(r"\bworker\b")
    until(lambda: stack.workers() and not before & set(stack.workers()), "another worker", START_S)


def logs_and_leftovers(stack: Stack) -> None:
    """Logs survive a crash and have times; a killed stack leaves no files in the temporary folder."""
    before = set(Path(tempfile.gettempdir()).glob("rag-*"))
    log = stack.data / "logs" / "worker.log"
    written = log.read_text()
    assert written
    assert stack.process is not None
    os.kill(stack.process.pid, signal.SIGKILL)
    stack.process.wait()
    stack.start()
    logs = "".join(file.read_text() for file in sorted(stack.data.glob("logs/worker.log*")))
    assert written.splitlines()[0] in logs, "the log from before the crash is missing"
    undated = [line for line in log.read_text().splitlines() if not line[:4].isdigit()]
    assert not undated, f"lines without a time: {undated[:3]}"
    remaining = set(Path(tempfile.gettempdir()).glob("rag-*")) - before - {stack.folder}
    assert not remaining, f"the temporary folder still holds {remaining}"


def _turns(stack: Stack) -> list[object]:
    reply = stack.service.ask("GET", "/v1/sessions/before-redis")
    turns: list[object] = reply.json["turns"] if reply.status == 200 else []
    return turns


ON_A_STACK = [redis_dies, workers_that_are_gone, logs_and_leftovers]
