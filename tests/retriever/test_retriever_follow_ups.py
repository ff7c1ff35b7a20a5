"""Searching for a follow-up: what the last question found stays among the candidates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from retriever import Collection, Library, SearchMode, SourceDocument
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

MODES: tuple[SearchMode, ...] = ("hybrid", "dense", "lexical")
TEXTS = {
    "tariff": ("Tariffs on copper were raised in spring.", "trade"),
    "mine": ("The mine in Chile closed its second shaft.", "trade"),
    "violin": ("The violin maker varnishes each instrument twice.", "craft"),
    "oven": ("The oven of the bakery is lit at four.", "craft"),
}


@pytest.fixture(scope="module")
def collection(each_store: str, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = Library(tmp_path_factory.mktemp("library"), HashEmbedder(128)).create("docs")
    sources = [
        SourceDocument(document_id=key, text=text, metadata={"kind": kind}) for key, (text, kind) in TEXTS.items()
    ]
    assert len(made.ingest(sources).added) == len(TEXTS)
    return made


def found(collection: Collection, question: str, mode: SearchMode = "lexical", **more: object) -> list[str]:
    return [passage.document_id for passage in collection.search(question, mode=mode, **more)]  # type: ignore[arg-type]


def test_candidates_are_found_where_the_question_says_little(collection: Collection) -> None:
    assert found(collection, "Tell me more!") == []
    assert found(collection, "Tell me more!", candidates=["violin:0", "mine:0"]) == ["violin", "mine"]


def test_candidates_yield_to_what_the_question_finds(collection: Collection) -> None:
    assert found(collection, "bakery oven shaft") == ["oven", "mine"]
    assert found(collection, "bakery oven shaft", candidates=["violin:0"]) == ["oven", "mine", "violin"]
    assert found(collection, "bakery copper shaft", top_k=3, candidates=["violin:0"]) == found(
        collection, "bakery copper shaft", top_k=3
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_candidate_among_equals_is_preferred(tmp_path: Path, mode: SearchMode) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("same")
    collection.ingest([SourceDocument(document_id=f"d{number}", text="zebra") for number in range(6)])
    assert found(collection, "zebra", mode)[0] == "d0"
    assert found(collection, "zebra", mode, candidates=["d1:0"])[0] == "d1"


def test_only_what_is_there_and_allowed_is_a_candidate(collection: Collection) -> None:
    ids = ["gone:0", "violin:9", "violin", "", ":", "violin:x", "violin:0", "mine:0"]
    assert found(collection, "Tell me more!", candidates=ids) == ["violin", "mine"]
    assert found(collection, "Tell me more!", candidates=ids, filter={"kind": "trade"}) == ["mine"]


def test_a_candidate_scores_a_little_more(collection: Collection) -> None:
    (alone,) = collection.search("violin", 1, "lexical")
    (best,) = collection.search("violin", 1, "lexical", candidates=["violin:0"])
    deviation = alone.score * math.sqrt(3) / 4  # of one score and three zeros
    assert best.score == pytest.approx(alone.score + 0.3 * deviation)
