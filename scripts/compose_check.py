"""What scripts/compose-test asks of a running stack over HTTP; standard library only.

    RAG_API_KEY=… PYTHONPATH=examples python scripts/compose_check.py URL first|again

`first` ingests the sample documents, asks and follows up; `again`, after a restart, finds documents and session as they
were and asks once more.

State between the two is what the stack keeps: the session has a fixed id.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rag_client import Rag

COLLECTION = "handbook"
SESSION = "compose-test"
DOCUMENTS = sorted((Path(__file__).parents[1] / "examples" / "documents").iterdir())


def main(url: str, phase: str) -> None:
    rag = Rag(url)
    if phase == "first":
        job = rag.upload(COLLECTION, DOCUMENTS)
        check(job["status"] == "succeeded" and not job["failures"], f"the ingest ended as {job}")
        check(not turns(rag), "the session has not begun yet")
        ask(rag, "How much is the hotel limit?")
        ask(rag, "And the allowance for meals?")
        check(len(turns(rag)) == 2, "the session has two turns")
    else:
        check(len(turns(rag)) == 2, "the session kept its two turns over the restart")
        ask(rag, "How long is the warranty of a sensor?")
        check(len(turns(rag)) == 3, "the session goes on after the restart")
    stored = rag.call("GET", f"/v1/collections/{COLLECTION}/documents")["documents"]
    check(len(stored) == len(DOCUMENTS), f"{len(stored)} of {len(DOCUMENTS)} documents are there")


def ask(rag: Rag, question: str) -> None:
    """Ask plainly decoded and by copying: equal text and citations, and passages that were retrieved."""
    options: dict[str, Any] = {"collection": COLLECTION, "max_tokens": 64, "seed": 1}
    plain = rag.ask(question, speculation="off", **options)
    alone = rag.ask(question, **options)
    check(bool(plain["answer"] and plain["passages"]), f"{question!r} was answered: {plain['answer']!r}")
    for field in ("answer", "citations"):
        check(plain[field] == alone[field], f"{field} equal with speculation off")
    rag.ask(question, session_id=SESSION, **options)


def turns(rag: Rag) -> list[Any]:
    sessions = rag.call("GET", "/v1/sessions")["sessions"]
    if SESSION not in {session["session_id"] for session in sessions}:
        return []
    found: list[Any] = rag.call("GET", f"/v1/sessions/{SESSION}")["turns"]
    return found


def check(holds: bool, what: str) -> None:
    print(f"  {'ok' if holds else 'FAILED'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
