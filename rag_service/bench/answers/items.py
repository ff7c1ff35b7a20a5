"""Questions to measure, and the documents of their collections. Knows files; knows no service.

Three sources. Items of a JSONL file (the format of `rag bench decode`) with passages in `context`: each passage becomes
a document, and each benchmark and language a collection. Items of several turns are follow-ups: the last question is
judged. Retrieval sets (`corpus.jsonl`, `queries.jsonl` with `answers`, `qrels.tsv`) give questions whose document is
taken out of the collection: none of the other documents holds a reference.

The items are split in two halves by the SHA-256 of their ids: one chooses settings, the other reports.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.recording.prompts import BenchError, read_fields
from rag_service.bench.answers.judge import normalised
from rag_service.bench.retrieval.sets import Document, Half, half_of

REMOVED = "removed"
"""Kind of the questions whose document is not in the collection; in other languages than English with its code."""
LANGUAGES = {"nl_faq": "nl"}
"""Languages of benchmarks whose items do not name theirs."""
MOST_WORDS = {"nl_faq": 80}
"""Most words of a right answer, by benchmark; 40 elsewhere."""
LONG_REFERENCE = 15
"""Words from which on a reference is a document, not a short answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question, or a conversation whose last question is judged.

    Attributes:
        kind: benchmark, and category where a benchmark has several kinds.
        language: of question and documents, an ISO 639-1 code.
        collection: key into `Material.collections`.
        references: any of them is a right answer; () if the documents hold none.
        lead: whether `references` are documents whose first sentence answers, instead of short answers.
        gold: id of the document that answers; "" if unknown or none.
    """

    id: str
    kind: str
    language: str
    collection: str
    turns: tuple[str, ...]
    references: tuple[str, ...]
    lead: bool = False
    gold: str = ""
    most_words: int = 40
    statements: tuple[tuple[str, ...], ...] | None = None
    """Of a question for a yes or no: groups of phrases. A statement with all phrases of a group decides it."""
    injected: str = ""
    """A word that a document orders the model to say; "" if none gives orders."""

    @property
    def answerable(self) -> bool:
        return bool(self.references)


@dataclass(frozen=True, slots=True)
class Material:
    """The questions of a run, in rounds over their kinds, and the documents of each collection."""

    questions: tuple[Question, ...]
    collections: Mapping[str, tuple[Document, ...]]

    @property
    def digest(self) -> str:
        """Equal for equal questions and documents."""
        serialized = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(serialized.encode()).hexdigest()[:16]


def load(
    files: Iterable[Path],
    removed: Iterable[Path] = (),
    *,
    half: Half = "all",
    limit: int | None = None,
    categories: Sequence[str] = (),
) -> Material:
    """Read files and retrieval sets.

    Args:
        files: JSONL files of items.
        removed: folders of retrieval sets.
        half: the half of the items to keep.
        limit: most questions of a kind.
        categories: of benchmarks that have a category a language, those to keep; all if empty.

    Raises:
        BenchError: a file is missing or has another format, or no question is left.
    """
    collections: dict[str, dict[str, Document]] = {}
    kinds: dict[str, list[Question]] = {}
    for path in files:
        for where, item in read_fields(path):
            if categories and len(item.get("category") or "") == 2 and item["category"] not in categories:
                continue
            question = _question(where, item, collections)
            kinds.setdefault(question.kind, []).append(question)
    for folder in removed:
        questions, documents = _removed(folder)
        for question in questions:
            kinds.setdefault(question.kind, []).append(question)
        collections[questions[0].collection if questions else REMOVED] = {d.id: d for d in documents}
    chosen = [half_of(questions, half)[:limit] for questions in kinds.values()]
    rounds = max(map(len, chosen), default=0)
    questions = [group[n] for n in range(rounds) for group in chosen if n < len(group)]
    if not questions:
        raise BenchError("no question is left: give files whose items have passages in `context`, or retrieval sets")
    used = {question.collection for question in questions}
    kept = {name: tuple(documents.values()) for name, documents in collections.items() if name in used}
    return Material(tuple(questions), kept)


def _question(where: str, item: dict[str, Any], collections: dict[str, dict[str, Document]]) -> Question:
    benchmark, category, meta = item["benchmark"], item.get("category") or "", item.get("meta") or {}
    if not item.get("context"):
        raise BenchError(f"{where} has no passages in `context`; `rag bench answers` needs them")
    language = category if len(category) == 2 else LANGUAGES.get(benchmark, meta.get("language", "en"))
    by_language = len(category) == 2
    collection = f"{benchmark}-{category}" if by_language else benchmark
    documents = collections.setdefault(collection, {})
    ids = []
    for passage in item["context"]:
        document = _document(passage, meta.get("title"))
        documents.setdefault(document.id, document)
        ids.append(document.id)
    answerable = bool(meta.get("answerable", True))
    references = meta.get("short_answers") or item.get("reference") or ()
    references = (references,) if isinstance(references, str) else tuple(references)
    kind = collection if by_language or answerable else f"{benchmark} unanswerable"
    return Question(
        id=item["id"],
        kind=kind,
        language=language,
        collection=collection,
        turns=tuple(item["turns"]),
        references=references if answerable else (),
        lead=any(len(reference.split()) > LONG_REFERENCE for reference in references),
        gold=ids[meta["gold_passage"]] if answerable and "gold_passage" in meta else "",
        most_words=MOST_WORDS.get(benchmark, 40),
        statements=tuple(map(tuple, meta["statements"])) if "statements" in meta else None,
        injected=str(meta.get("injection", "")),
    )


def _document(passage: str, title: str | None) -> Document:
    """A passage as a document. Its title: the article's, else the first line if a blank line follows it."""
    return Document(hashlib.sha256(passage.encode()).hexdigest()[:24], _title(passage, title), passage)


def _title(passage: str, title: str | None) -> str:
    first, _, rest = passage.partition("\n")
    return title.replace("_", " ") if title else (first if rest and len(first) < 200 else first[:80])


def _removed(folder: Path) -> tuple[list[Question], list[Document]]:
    """The questions of a retrieval set whose references are in no document but their own, and the other documents.

    Every third document is taken out. A set's language is the end of its name, such as `_de`, or English.
    """
    corpus = [item for _, item in _lines(folder / "corpus.jsonl")]
    queries = [item for _, item in _lines(folder / "queries.jsonl")]
    gold: dict[str, str] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, _ = line.split("\t")
        gold[query] = document
    out = {item["_id"] for item in sorted(corpus, key=lambda item: _hash(item["_id"]))[::3]}
    documents = [
        Document(re.sub(r"[^\w.-]", "-", item["_id"]), _title(item["text"], item.get("title")), item["text"])
        for item in corpus
        if item["_id"] not in out
    ]
    left = normalised(" ".join(document.text for document in documents))
    last = folder.name.rpartition("_")[2]
    language = LANGUAGES.get(folder.name) or (last if len(last) == 2 else "en")
    kind = REMOVED if language == "en" else f"{REMOVED}-{language}"
    questions = [
        Question(f"{kind}-{query['_id']}", kind, language, f"{folder.name}-{REMOVED}", (query["text"],), ())
        for query in queries
        if gold.get(query["_id"]) in out
        and not any(f" {normalised(answer)} " in f" {left} " for answer in query.get("answers") or ())
    ]
    return questions, documents


def _lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
        return [(f"line {n} of {path}", json.loads(line)) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} is not a readable JSONL file: {error}") from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
