"""Asks questions over HTTP, as a user would: default settings, greedy. Knows the client; judges nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rag_service.bench.answers.items import Material, Question
from rag_service.bench.answers.outcomes import Outcome
from rag_service.bench.retrieval.sets import Document
from rag_service.client import RagClient
from rag_service.client.calls import Text
from rag_service.client.errors import Conflict, NotFound
from rag_service.client.events import Done, Token
from rag_service.contract.answer import Answer

SEED = 1
BATCH = 200
"""Documents of one upload."""


def ask_all(
    client: RagClient,
    material: Material,
    done: Collection[str],
    store: Callable[[Outcome], None],
    say: Callable[[str], None],
    options: Mapping[str, Any],
) -> None:
    """Ingest the documents and ask the missing questions; each outcome is passed to `store` at once.

    Args:
        done: ids of questions to skip.
        options: fields of every request, such as `speculation`.

    Raises:
        RagError: the service rejects or fails.
    """
    left = [question for question in material.questions if question.id not in done]
    for name in dict.fromkeys(question.collection for question in left):
        say(f"ingesting {len(material.collections[name])} documents of {name}")
        ingest(client, name, material.collections[name])
    for number, question in enumerate(left, len(material.questions) - len(left) + 1):
        outcome = ask(client, question, options)
        store(outcome)
        took = f"{outcome.total_ms / 1e3:.1f} s"
        say(f"{number}/{len(material.questions)} {question.kind} {took}: {outcome.answer!r:.100}")


def ingest(client: RagClient, collection: str, documents: Collection[Document]) -> None:
    with contextlib.suppress(Conflict):
        client.create_collection(collection)
    texts: list[str | Text] = [{"id": d.id, "title": d.title, "text": d.text} for d in documents]
    for start in range(0, len(texts), BATCH):
        client.ingest(collection, texts=texts[start : start + BATCH])


def ask(client: RagClient, question: Question, options: Mapping[str, Any]) -> Outcome:
    """Ask all turns in a session of its own, which is erased at the end."""
    session_id, earlier = "", []
    query: dict[str, Any] = {"seed": SEED, "collection": question.collection, **options}
    try:
        for turn in question.turns:
            started, first = time.perf_counter(), None
            for event in client.stream(turn, **query):
                if isinstance(event, Token) and first is None:
                    first = time.perf_counter()
                if isinstance(event, Done):
                    answer = event.answer
            ended = time.perf_counter()
            query["session_id"] = session_id = answer.session_id
            earlier.append(answer.answer or "")
    finally:
        if session_id:
            with contextlib.suppress(NotFound):
                client.erase_session(session_id)
    times = (1e3 * ((first or ended) - started), 1e3 * (ended - started))
    return _outcome(question, answer, earlier[:-1], *times)


def _outcome(question: Question, answer: Answer, earlier: list[str], first_ms: float, total_ms: float) -> Outcome:
    usage: Mapping[str, Any] = answer.usage or {}
    return Outcome(
        id=question.id,
        answer=answer.answer or "",
        finish_reason=str(answer.finish_reason),
        grounded=answer.grounded,
        passages=[(passage.document_id, passage.text) for passage in answer.passages if passage.in_prompt],
        cited=[citation.document_id for citation in answer.citations or ()],
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        tokens=int(usage.get("completion_tokens", 0)),
        steps=int((answer.speculation or {}).get("steps", 0)),
        first_ms=first_ms,
        total_ms=total_ms,
        earlier=earlier,
        support=answer.support,
        answerable=answer.answerable,
        abstained=answer.abstained,
        signals=answer.signals or {},
        note=answer.note,
        nearest=answer.nearest.text if answer.nearest else "",
        support_ms=(answer.timings or {}).get("support", 0.0),
    )
