"""Every query of a set asked in every mode of the search. Knows collections and sets; sums nothing up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rag_service.bench.retrieval.measures import measured
from rag_service.bench.retrieval.sets import Query, RetrievalSet
from retriever import Collection, Library, SearchMode, SourceDocument
from retriever.search.fusion import MAX_TOP_K


def ingested(library: Library, one: RetrievalSet, say: Callable[[str], None]) -> Collection:
    """A set's documents in a collection of its name; those that it has already are not embedded again."""
    collection = library.create(one.name, exist_ok=True)
    report = collection.ingest(
        [
            SourceDocument(document_id=document.id, title=document.title or None, text=document.text)
            for document in one.documents
        ],
        progress=lambda done, total, _: say(f"{one.name}: {done} of {total} documents") if done % 1000 == 0 else None,
    )
    for failure in report.failures:
        say(f"{one.name}: {failure.name} is left out: {failure.reason}")
    return collection


def ask(
    collection: Collection,
    queries: Iterable[Query],
    modes: Sequence[SearchMode],
    add: Callable[[dict[str, Any]], None],
    name: str | None = None,
) -> None:
    """Ask each query in each mode, and `add` its measures, under `name` if it is given."""
    for query in queries:
        for mode in modes:
            passages = collection.search(query.text, MAX_TOP_K, mode)
            ranked = list(dict.fromkeys(passage.document_id for passage in passages))
            found = {name: round(value, 6) for name, value in measured(ranked, query.relevant).items()}
            add({"set": collection.name, "query": query.id, "mode": name or mode, **found})
