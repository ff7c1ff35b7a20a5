"""How far the best candidate of a search stands out."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import Library, SourceDocument
from retriever.search.standout import standout
from retriever.words import Words
from tests.support.hash_embedder import HashEmbedder

TOPICS = (
    "hotel rates",
    "train tickets",
    "sick leave",
    "office keys",
    "parental leave",
    "laptop repair",
    "visitor badges",
)


def test_a_question_that_one_candidate_answers_stands_out() -> None:
    texts = {n: f"The rules for {topic} are on page {n}." for n, topic in enumerate(TOPICS)}
    dense = [(n, 0.5) for n in texts]
    answered = standout("Where are the rules for laptop repair?", texts, dense, Words("en"))
    other = standout("Where are the rules for bicycle insurance?", texts, dense, Words("en"))
    assert answered > other + 0.3


def test_cosines_count_as_words_do() -> None:
    texts = dict.fromkeys(range(8), "one text")
    level = standout("another question", texts, [(n, 0.4) for n in texts], Words("en"))
    one = standout("another question", texts, [(n, 0.9 if n == 3 else 0.4) for n in texts], Words("en"))
    assert level == pytest.approx(0)
    assert one == pytest.approx(0.5)


def test_few_candidates_are_compared_with_the_last() -> None:
    two = standout("blue fox", {1: "a blue fox", 2: "a red hen"}, [(1, 0.5), (2, 0.5)], Words("en"))
    assert two == pytest.approx(1.0)


@pytest.mark.parametrize(("mode", "has"), [("hybrid", True), ("lexical", False), ("dense", False)])
def test_only_a_hybrid_search_has_it(tmp_path: Path, mode: str, has: bool) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("c")
    collection.ingest(
        [SourceDocument(document_id=str(n), text=f"All about {topic}.") for n, topic in enumerate(TOPICS)]
    )
    found = collection.find("hotel rates", 3, mode, language="en")  # type: ignore[arg-type]
    assert (found.margin is not None) == has
    assert [passage.chunk_id for passage in found.passages] == [
        passage.chunk_id
        for passage in collection.search("hotel rates", 3, mode)  # type: ignore[arg-type]
    ]


def test_a_collection_of_one_chunk_has_none(tmp_path: Path) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("c")
    collection.ingest([SourceDocument(document_id="a", text="All about foxes.")])
    assert collection.find("foxes").margin is None
