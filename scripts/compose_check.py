"""Checks of scripts/compose-test on a running stack over HTTP; standard library only.

    RAG_API_KEY=… PYTHONPATH=examples python scripts/compose_check.py URL first|again [SESSION]

`first` ingests the sample documents, asks and follows up. `again`, after a restart, checks that documents and session
are unchanged and asks once more. The session has a fixed id, so the stack itself holds the state between the two.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rag_client import Rag

COLLECTION = "handbook"
DOCUMENTS = sorted((Path(__file__).parents[1] / "examples" / "documents").iterdir())


def main(url: str, phase: str, session: str = "compose-test") -> None:
    rag = Rag(url)
    if phase == "first":
        job = rag.upload(COLLECTION, DOCUMENTS)
        check(job["status"] == "succeeded" and not job["failures"], f"the ingest ended as {job}")
        check(not turns(rag, session), "the session does not exist yet")
        ask(rag, session, "How much is the hotel limit?")
        ask(rag, session, "And the allowance for meals?")
        check(len(turns(rag, session)) == 2, "the session has two turns")
    else:
        check(len(turns(rag, session)) == 2, "the session kept its two turns over the restart")
        ask(rag, session, "How long is the warranty of a sensor?")
        check(len(turns(rag, session)) == 3, "the session continues after the restart")
    stored = rag.call("GET", f"/v1/collections/{COLLECTION}/documents")["documents"]
    check(len(stored) == len(DOCUMENTS), f"the collection has {len(stored)} of {len(DOCUMENTS)} documents")


def ask(rag: Rag, session: str, question: str) -> None:
    """Ask with speculation and without: text and citations are equal, and there are passages."""
    options: dict[str, Any] = {"collection": COLLECTION, "max_tokens": 64, "seed": 1}
    plain = rag.ask(question, speculation="off", **options)
    drafted = rag.ask(question, **options)
    check(bool(plain["answer"] and plain["passages"]), f"{question!r} was answered: {plain['answer']!r}")
    for field in ("answer", "citations"):
        check(plain[field] == drafted[field], f"{field} equal with speculation off")
    rag.ask(question, session_id=session, **options)


def turns(rag: Rag, session: str) -> list[Any]:
    sessions = rag.call("GET", "/v1/sessions")["sessions"]
    if session not in {one["session_id"] for one in sessions}:
        return []
    listed: list[Any] = rag.call("GET", f"/v1/sessions/{session}")["turns"]
    return listed


def check(holds: bool, what: str) -> None:
    print(f"  {'ok' if holds else 'FAILED'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
