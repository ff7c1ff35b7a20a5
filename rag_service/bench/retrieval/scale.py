"""Times and memory of a collection of many chunks: ingest, searches, filters, changes. Prints nothing.

Searches that are compared are asked one after the other on the same question, in turns, so that other work on the
machine meets both alike.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np

from rag_service.bench.retrieval import synthetic
from retriever import Collection, Library, SearchMode, SourceDocument

AT_ONCE = 8
CHANGES = 20
INGESTED = 2000
"""Documents that are ingested while searches run."""
Search = Callable[[str], object]


def filters(count: int) -> dict[str, Mapping[str, Any]]:
    """Filters by name: the share of the documents that pass, and how it is told."""
    return {
        "equal, 1 in 10": {"tenth": 0},
        "equal, 1 in 2": {"half": 0},
        "range, 9 in 10": {"number": {"$gte": count // 10}},
        "not, 9 in 10": {"tenth": {"$ne": 0}},
        "in a list, 2 in 10": {"tenth": {"$in": [1, 2]}},
        "one document": {"number": 7},
    }


def measure(
    opened: Callable[[], Library],
    library: Library,
    count: int,
    pool: Sequence[str],
    questions: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Fill a collection of a library up to `count` chunks and measure it: `facts` and `rows`.

    `opened` opens the library again, in another process.
    """
    name = f"chunks-{count}"
    collection = library.create(name, exist_ok=True)
    memory = _resident()
    before, begun = collection.stats().chunks, time.perf_counter()
    if before < count:
        collection.ingest(_said(synthetic.documents(pool, count - before, before), say))
    took = time.perf_counter() - begun
    stored = collection.stats().chunks
    facts: dict[str, Any] = {"chunks": stored}
    if stored > before:
        facts["ingest, chunks a second"] = round((stored - before) / took)
    for question in questions:
        library.find([name], question, 5)  # embeds it; the first one opens the index
    facts["memory of the process, MiB"] = round(_resident())
    facts["memory since it was opened, MiB"] = round(_resident() - memory)
    rows = [*_modes(library, name, questions), *_filtered(library, name, questions, stored)]
    rows += _during_ingest(library, opened, name, questions, pool, stored)
    rows += _changes(library, collection, questions, pool, stored)
    return {"facts": facts, "rows": rows}


def embedding(embed: Callable[[str], object], questions: Sequence[str]) -> dict[str, Any]:
    """The time to embed a question."""
    embed(questions[0])
    return _row("embed the question", [_timed(embed, question) for question in questions])


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _modes(library: Library, name: str, questions: Sequence[str]) -> Iterator[dict[str, Any]]:
    for mode in get_args(SearchMode):
        search = _search(library, name, mode)
        yield _row(mode, [_timed(search, question) for question in questions])
    search = _search(library, name, "hybrid")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield _row(f"hybrid, {AT_ONCE} at once", list(pool.map(lambda question: _timed(search, question), questions)))


def _filtered(library: Library, name: str, questions: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
    plain = _search(library, name, "hybrid")
    for label, where in filters(count).items():
        search = _search(library, name, "hybrid", where)
        pairs = _pairs(plain, search, questions)
        yield _row(f"hybrid, filter: {label}", [time for _, time in pairs], pairs)


def _during_ingest(
    library: Library,
    opened: Callable[[], Library],
    name: str,
    questions: Sequence[str],
    pool: Sequence[str],
    count: int,
) -> Iterator[dict[str, Any]]:
    """Searches while another process ingests, as the service's workers do, and while this one does.

    Each is compared with the same search before the ingest.
    """
    search = _search(library, name, "hybrid")
    more = list(synthetic.documents(pool, INGESTED, 10 * count))
    ways: dict[str, tuple[Executor, Callable[[], Library]]] = {
        "during an ingest": (ProcessPoolExecutor(1, get_context("spawn")), opened),
        "during an ingest by the same process": (ThreadPoolExecutor(1), lambda: library),
    }
    for label, (executor, its_library) in ways.items():
        with executor:
            executor.submit(_ingest, its_library, name, []).result()
            alone = {question: _timed(search, question) for question in questions}
            ingested = executor.submit(_ingest, its_library, name, more)
            pairs: list[tuple[float, float]] = []
            while not ingested.done():
                question = questions[len(pairs) % len(questions)]
                pairs.append((alone[question], _timed(search, question)))
            ingested.result()
        for document in more:
            library.collection(name).delete(document.document_id or "")
        search(questions[0])
        yield _row(f"hybrid, {label}", [time for _, time in pairs], pairs)


def _ingest(opened: Callable[[], Library], name: str, documents: Sequence[SourceDocument]) -> None:
    opened().collection(name).ingest(documents)


def _changes(
    library: Library, collection: Collection, questions: Sequence[str], pool: Sequence[str], count: int
) -> Iterator[dict[str, Any]]:
    search = _search(library, collection.name, "hybrid")
    usual: list[float] = []
    added: list[float] = []
    deleted: list[float] = []
    for document in synthetic.documents(pool, CHANGES, 20 * count):
        question = questions[len(usual) % len(questions)]
        usual.append(_timed(search, question))
        added.append(_timed(partial(_put, collection, document, search), question))
        deleted.append(_timed(partial(_delete, collection, document, search), question))
    for label, times in (("a change: add", added), ("a change: delete", deleted)):
        yield _row(label, [time - before for before, time in zip(usual, times, strict=True)])


def _put(collection: Collection, document: SourceDocument, search: Search, question: str) -> None:
    collection.ingest([document])
    search(question)


def _delete(collection: Collection, document: SourceDocument, search: Search, question: str) -> None:
    collection.delete(document.document_id or "")
    search(question)


def _search(library: Library, name: str, mode: SearchMode, where: Mapping[str, Any] | None = None) -> Search:
    return lambda question: library.find([name], question, 5, mode, where)


def _pairs(one: Search, other: Search, questions: Sequence[str]) -> list[tuple[float, float]]:
    """Times of both searches for each question, the order turned every time."""
    found = []
    for number, question in enumerate(questions):
        if number % 2:
            late, early = _timed(other, question), _timed(one, question)
            found.append((early, late))
        else:
            found.append((_timed(one, question), _timed(other, question)))
    return found


def _timed(search: Search, question: str) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    search(question)
    return (time.perf_counter() - begun) * 1e3


def _row(what: str, times: Sequence[float], pairs: Sequence[tuple[float, float]] = ()) -> dict[str, Any]:
    if not times:
        return {"what": what, "times": 0, "p50": 0.0, "p95": 0.0}
    p50, p95 = np.quantile(times, [0.5, 0.95])
    row: dict[str, Any] = {"what": what, "times": len(times), "p50": round(float(p50), 2), "p95": round(float(p95), 2)}
    if pairs:
        row["ratio"] = round(statistics.median(time / before for before, time in pairs), 3)
    return row


def _said(sources: Iterator[SourceDocument], say: Callable[[str], None]) -> Iterator[SourceDocument]:
    for number, source in enumerate(sources, start=1):
        if number % 10_000 == 0:
            say(f"{number:,} documents made")
        yield source


def _resident() -> float:
    """Memory of this process in MiB, now; its most where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
