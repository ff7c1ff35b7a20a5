"""Retrieval sets on disk → documents, queries and judgements. Knows the form of the files; runs nothing.

A set is a folder: `corpus.jsonl` (or `.jsonl.gz`) with `_id`, `title`, `text`; `queries.jsonl` with `_id`, `text`;
`qrels.tsv` with query, document and score under a header line. `queries_train.jsonl` and `qrels_train.tsv` are a
split of their own.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from decoder.recording.prompts import BenchError

Half = Literal["choose", "report", "all"]


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Identified = TypeVar("Identified", bound=_HasId)


@dataclass(frozen=True, slots=True)
class Query:
    """A question, and the score above 0 of each document that answers it."""

    id: str
    text: str
    relevant: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """`digest` is equal for equal documents and queries."""

    name: str
    documents: Sequence[Document]
    queries: Sequence[Query]
    digest: str


def load(folder: Path, split: str = "test", half: Half = "all", limit: int | None = None) -> RetrievalSet:
    """Read a set. Queries without a document that answers them are left out.

    Args:
        split: `test` for `queries.jsonl`; another name for `queries_NAME.jsonl`.
        half: half of the queries, by the SHA-256 of their ids: every second one reports.
        limit: most queries.

    Raises:
        BenchError: a file is missing or has another format, or no query is left.
    """
    ending = "" if split == "test" else f"_{split}"
    corpus = next((one for one in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if one.is_file()), None)
    if corpus is None:
        raise BenchError(f"{folder} is no retrieval set: it has no corpus.jsonl")
    documents = [Document(one["_id"], one.get("title") or "", one["text"]) for one in _lines(corpus, "_id", "text")]
    relevant = _judgements(folder / f"qrels{ending}.tsv", {document.id for document in documents})
    queries = [
        Query(one["_id"], one["text"], relevant[one["_id"]])
        for one in _lines(folder / f"queries{ending}.jsonl", "_id", "text")
        if one["_id"] in relevant
    ]
    queries = half_of(queries, half)[:limit]
    if not queries:
        raise BenchError(f"{folder} has no {split} query whose document is in its corpus")
    return RetrievalSet(folder.name, documents, queries, _digest(documents, queries))


def half_of(queries: Sequence[Identified], half: Half) -> list[Identified]:
    """Ordered by the SHA-256 of their ids; every second one belongs to the half that reports."""
    ordered = sorted(queries, key=lambda query: hashlib.sha256(query.id.encode()).hexdigest())
    return {"all": ordered, "choose": ordered[::2], "report": ordered[1::2]}[half]


def _judgements(path: Path, known: set[str]) -> dict[str, dict[str, float]]:
    if not path.is_file():
        raise BenchError(f"{path} is missing; a retrieval set needs it")
    relevant: dict[str, dict[str, float]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], start=2):
        try:
            query, document, score = line.split("\t")
            value = float(score)
        except ValueError:
            raise BenchError(f"{path}:{number} is not a query, a document and a score with tabs between them") from None
        if value > 0 and document in known:
            relevant.setdefault(query, {})[document] = value
    return relevant


def _lines(path: Path, *keys: str) -> list[dict[str, Any]]:
    if not path.is_file():
        raise BenchError(f"{path} is missing; a retrieval set needs it")
    found = []
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                value = json.loads(line)
                if any(not isinstance(value[key], str) for key in keys):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                raise BenchError(f"{path}:{number} is not a JSON object with the texts {', '.join(keys)}") from None
            found.append(value)
    return found


def _digest(documents: Sequence[Document], queries: Sequence[Query]) -> str:
    whole = hashlib.sha256()
    for one in documents:
        whole.update(json.dumps([one.id, one.title, one.text]).encode())
    for query in queries:
        whole.update(json.dumps([query.id, query.text, sorted(query.relevant.items())]).encode())
    return whole.hexdigest()[:16]
