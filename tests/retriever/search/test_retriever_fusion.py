"""Fusion follows the part that knows: neither part is spoilt by one that does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retriever import Collection, Library, SearchMode, SourceDocument
from retriever.embedding.embedder import Vectors

WORDS = [f"w{number}" for number in range(120)]
DOCUMENTS, QUESTIONS = 200, 100


class Oracle:
    """Knows which document answers which question, by the numbers they begin with, but for some noise."""

    dimension = 256

    def __init__(self, noise: float) -> None:
        self.name = "oracle"
        self.noise = noise

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        return np.stack([self._vector(text, 1) for text in texts])

    def embed_query(self, text: str, /) -> Vectors:
        return self._vector(text, 2)

    def _vector(self, text: str, side: int) -> Vectors:
        number = int(re.findall(r"\d+", text)[0])
        meaning = np.random.default_rng(number).standard_normal(self.dimension)
        noise = np.random.default_rng([number, side]).standard_normal(self.dimension)
        vector = meaning + self.noise * noise
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


class Blind(Oracle):
    """Knows nothing, and says so."""

    most_tokens = None

    def tokens(self, text: str, /) -> int:
        return len(text)

    def known(self, text: str, /) -> float:
        return 0.0


def build(folder: Path, embedder: Oracle, overlap: int) -> tuple[Collection, list[str]]:
    """Documents and questions of ten words each, of which `overlap` are common."""
    random = np.random.default_rng(1)
    sources, questions = [], []
    for number in range(DOCUMENTS):
        words = random.choice(WORDS, 10, replace=False)
        own = random.choice(words, overlap, replace=False)
        sources.append(SourceDocument(document_id=f"d{number}", text=f"{number}d {' '.join(words)}"))
        questions.append(f"{number}q {' '.join([*own, *random.choice(WORDS, 10 - overlap)])}")
    collection = Library(folder, embedder).create("docs")
    collection.ingest(sources)
    return collection, questions[:QUESTIONS]


def right(collection: Collection, questions: list[str], mode: SearchMode) -> float:
    """Share of questions whose document comes first."""
    found = [collection.search(question, 1, mode) for question in questions]
    return float(np.mean([bool(best) and best[0].document_id == f"d{n}" for n, best in enumerate(found)]))


@pytest.mark.parametrize(("noise", "overlap"), [(0.5, 0), (0.5, 3), (2.5, 9), (9.0, 9), (2.0, 4)])
def test_hybrid_is_as_good_as_its_better_part(tmp_path: Path, noise: float, overlap: int) -> None:
    collection, questions = build(tmp_path, Oracle(noise), overlap)
    dense, lexical, hybrid = (right(collection, questions, mode) for mode in ("dense", "lexical", "hybrid"))
    print(noise, overlap, dense, lexical, hybrid)
    assert hybrid >= max(dense, lexical) - 0.02


@pytest.mark.parametrize(("noise", "overlap"), [(0.5, 0), (0.5, 3), (2.5, 9), (9.0, 9)])
def test_so_it_is_where_documents_have_several_chunks(tmp_path: Path, noise: float, overlap: int) -> None:
    random = np.random.default_rng(1)
    sources, questions = [], []
    for document in range(DOCUMENTS // 4):
        parts = []
        for number in range(document * 4, document * 4 + 4):
            words = random.choice(WORDS, 10, replace=False)
            own = random.choice(words, overlap, replace=False)
            parts.append(f"{number}d {' '.join(words)} {'and so on ' * 75}")
            questions.append(f"{number}q {' '.join([*own, *random.choice(WORDS, 10 - overlap)])}")
        sources.append(SourceDocument(document_id=f"d{document}", title="Title", text="\n\n".join(parts)))
    collection = Library(tmp_path, Oracle(noise)).create("docs")
    collection.ingest(sources)
    assert collection.stats().chunks == DOCUMENTS

    def right(mode: SearchMode) -> float:
        found = [collection.search(question, 1, mode) for question in questions[:QUESTIONS]]
        return float(np.mean([bool(best) and best[0].chunk_id == f"d{n // 4}:{n % 4}" for n, best in enumerate(found)]))

    dense, lexical, hybrid = (right(mode) for mode in ("dense", "lexical", "hybrid"))
    print(noise, overlap, dense, lexical, hybrid)
    assert hybrid >= max(dense, lexical) - 0.02


def test_an_embedder_that_knows_nothing_changes_nothing(tmp_path: Path) -> None:
    collection, questions = build(tmp_path, Blind(9.0), 3)
    for question in questions[:20]:
        lexical = [passage.document_id for passage in collection.search(question, 10, "lexical")]
        assert [passage.document_id for passage in collection.search(question, 10)][: len(lexical)] == lexical


def test_what_the_embedder_does_not_know_is_reported(tmp_path: Path) -> None:
    sources = [SourceDocument(document_id=f"d{number}", text=f"{number} word") for number in range(3)]
    (note,) = Library(tmp_path / "blind", Blind(1.0)).create("docs").ingest(sources).notes
    assert "'d0' and 2 more" in note
    assert Library(tmp_path / "oracle", Oracle(1.0)).create("docs").ingest(sources).notes == ()
