"""Search: modes, filters, order, bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever import Collection, InvalidQuery, Library, SearchMode, SourceDocument
from retriever.parsing.text import clean
from retriever.search import fusion as search
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

ANIMALS = {
    "cat": ("The cat sleeps on the warm mat all day.", {"kind": "pet", "legs": 4}),
    "dog": ("The dog barks at the cat next door.", {"kind": "pet", "legs": 4}),
    "hen": ("A hen lays one egg a day.", {"kind": "farm", "legs": 2}),
    "cow": ("Cows give milk.", {"kind": "farm", "legs": 4, "tags": ["big"]}),
}
MODES: tuple[SearchMode, ...] = ("hybrid", "dense", "lexical")


@pytest.fixture(scope="module")
def animals(each_store: str, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    collection = Library(tmp_path_factory.mktemp("library"), HashEmbedder(128)).create("animals")
    sources = [SourceDocument(document_id=key, text=text, metadata=meta) for key, (text, meta) in ANIMALS.items()]
    assert len(collection.ingest(sources).added) == 4
    return collection


def ids(collection: Collection, question: str, mode: SearchMode, **more: Any) -> list[str]:
    return [passage.document_id for passage in collection.search(question, mode=mode, **more)]


@pytest.mark.parametrize("mode", MODES)
def test_the_best_passage_comes_first(animals: Collection, mode: SearchMode) -> None:
    passages = animals.search("Which hen lays an egg?", top_k=3, mode=mode)
    best = passages[0]
    assert (best.document_id, best.chunk_id, best.rank, best.page, best.heading) == ("hen", "hen:0", 1, None, None)
    assert best.text == animals.get("hen").text[best.source_start : best.source_end]
    assert best.title == "hen"
    assert [passage.rank for passage in passages] == list(range(1, len(passages) + 1))
    scores = [passage.score for passage in passages]
    assert scores == sorted(scores, reverse=True)


def test_scores_are_those_of_the_mode(animals: Collection) -> None:
    assert animals.search("Cows give milk.", 1, "dense")[0].score == pytest.approx(1.0, abs=1e-5)
    # four chunks, of which one has all the words: in each part it is as far from the mean as one of four can be
    assert animals.search("Cows give milk.", 1, "hybrid")[0].score == pytest.approx(2 * math.sqrt(3), abs=0.1)
    assert animals.search("milk", 1, "lexical")[0].score > 0


def test_lexical_finds_words_and_dense_finds_neighbours(animals: Collection) -> None:
    assert ids(animals, "cat", "lexical") == ["cat", "dog"] or ids(animals, "cat", "lexical") == ["dog", "cat"]
    assert len(ids(animals, "cat", "dense")) == 4
    assert ids(animals, "unheard of words", "lexical") == []


@pytest.mark.parametrize("mode", MODES)
def test_filters_are_exact_and_all_must_hold(animals: Collection, mode: SearchMode) -> None:
    question = "the cat the dog a hen cows"
    assert set(ids(animals, question, mode, filter={"kind": "farm"})) == {"hen", "cow"}
    assert set(ids(animals, question, mode, filter={"legs": 4, "kind": "farm"})) == {"cow"}
    assert set(ids(animals, question, mode, filter={"tags": ["big"]})) == {"cow"}
    assert ids(animals, question, mode, filter={"legs": "4"}) == []
    assert ids(animals, question, mode, filter={"kind') OR 1=1 --": "farm"}) == []
    assert len(ids(animals, question, mode, filter={})) == 4


def test_equal_scores_are_ordered_by_id_whatever_the_order_of_ingest(tmp_path: Path) -> None:
    orders = []
    for number, keys in enumerate([("b", "a", "c"), ("c", "b", "a")]):
        collection = Library(tmp_path / str(number), HashEmbedder()).create("same")
        for key in keys:
            collection.ingest([SourceDocument(document_id=key, text="The same text.")])
        orders.append([ids(collection, "same text", mode) for mode in MODES])
    assert orders[0] == orders[1] == [["a", "b", "c"]] * 3


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_collection_has_no_passages(tmp_path: Path, mode: SearchMode) -> None:
    collection = Library(tmp_path, HashEmbedder()).create("empty")
    assert collection.search("anything", mode=mode) == []
    assert collection.search("anything", mode=mode, filter={"a": 1}) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question": ""}, "empty"),
        ({"question": " \n\0"}, "empty"),
        ({"question": "x" * 20_001}, "20,000"),
        ({"top_k": 0}, "1 to 100"),
        ({"top_k": 101}, "1 to 100"),
        ({"top_k": True}, "1 to 100"),
        ({"top_k": 2.0}, "1 to 100"),
        ({"mode": "none"}, "hybrid, dense, lexical"),
        ({"filter": {1: "a"}}, "filter"),
        ({"filter": {"a": object()}}, "JSON"),
        ({"filter": {str(number): 1 for number in range(17)}}, "16"),
    ],
)
def test_bad_queries_say_what_is_allowed(animals: Collection, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        animals.search(**{"question": "cat", **arguments})


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=60).filter(lambda text: clean(text).strip()), st.sampled_from(MODES))
def test_any_question_can_be_asked(animals: Collection, question: str, mode: SearchMode) -> None:
    found = ids(animals, question, mode)
    assert len(found) == 4 if mode == "dense" else set(found) <= set(ANIMALS)


def test_passages_carry_headings_and_pages(tmp_path: Path) -> None:
    body = "Filler sentence for this part. " * 30
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest([SourceDocument(name="a.md", text=f"# One\n\n{body}\n\n## Two\n\nUnique zebra.\n\n{body}")])
    best = collection.search("zebra", 1)[0]
    assert (best.title, best.heading) == ("One", "One > Two")


@pytest.mark.parametrize("mode", MODES)
def test_deleted_chunks_take_no_place_among_the_candidates(
    tmp_path: Path, mode: SearchMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "DEPTH", 2)
    collection = Library(tmp_path, HashEmbedder()).create("docs")
    collection.ingest([SourceDocument(document_id=f"d{number}", text="zebra") for number in range(4)])
    collection.ingest([SourceDocument(document_id="last", text="zebra and more")])
    assert len(collection.search("zebra", mode=mode)) == 2
    for number in range(4):
        collection.delete(f"d{number}")
    assert ids(collection, "zebra", mode) == ["last"]
