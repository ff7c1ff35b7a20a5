"""A search over several collections finds what one collection with all their documents would."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import Library, SearchMode, SourceDocument, UnknownCollection
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

LEFT = {"zurich": "The hotel limit in Zurich is 210 francs a night.", "shared": "Visitors get a blue badge."}
RIGHT = {"lisbon": "The hotel limit in Lisbon is 140 euros a night.", "shared": "Parcels wait in room nine."}


def add(library: Library, name: str, texts: dict[str, str]) -> None:
    sources = [SourceDocument(document_id=key, text=text, metadata={"of": name}) for key, text in texts.items()]
    library.create(name).ingest(sources)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path, HashEmbedder(128))
    add(library, "left", LEFT)
    add(library, "right", RIGHT)
    return library


def test_the_dense_search_is_that_of_one_collection(library: Library) -> None:
    add(library, "both", {"left-" + key: text for key, text in LEFT.items()} | RIGHT)
    together = library.find(["left", "right"], "hotel limit Lisbon", 4, "dense").passages
    alone = library.collection("both").search("hotel limit Lisbon", 4, "dense")
    assert [(one.text, one.score, one.rank) for one in together] == [(one.text, one.score, one.rank) for one in alone]


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense"])
def test_each_passage_names_its_collection(library: Library, mode: SearchMode) -> None:
    best = {name: library.find(["left", "right"], text, 1, mode).passages[0] for name, text in RIGHT.items()}
    assert [(one.collection, one.document_id) for one in best.values()] == [("right", "lisbon"), ("right", "shared")]
    assert library.find(["right", "left"], "hotel night", 9, mode) == library.find(
        ["left", "right"], "hotel night", 9, mode
    )


def test_equal_names_of_documents_are_different_documents(library: Library) -> None:
    found = library.find(["left", "right"], "blue badge, parcels in room nine", 4).passages
    assert {(one.collection, one.text) for one in found if one.document_id == "shared"} == {
        ("left", LEFT["shared"]),
        ("right", RIGHT["shared"]),
    }
    assert [one.rank for one in found] == [1, 2, 3, 4]


def test_candidates_belong_to_their_collection(library: Library) -> None:
    add(library, "empty", {})
    only = library.find(["empty", "right"], "violin", 1, "lexical", candidates=[("right", "shared:0")]).passages
    assert [(one.collection, one.chunk_id) for one in only] == [("right", "shared:0")]
    assert library.find(["left", "empty"], "violin", 1, "lexical", candidates=[("right", "shared:0")]).passages == []


def test_a_filter_holds_for_all(library: Library) -> None:
    found = library.find(["left", "right"], "hotel limit", 9, filter={"of": "left"}).passages
    assert {one.collection for one in found} == {"left"}


def test_an_empty_collection_beside_others_changes_nothing(library: Library) -> None:
    library.create("empty")
    alone = library.find(["left"], "hotel limit Zurich", 2)
    assert library.find(["empty", "left"], "hotel limit Zurich", 2) == alone
    assert alone == library.collection("left").find("hotel limit Zurich", 2)
    assert library.find(["empty"], "hotel").passages == []


def test_the_question_is_embedded_once(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    embed = HashEmbedder.embed_query

    def counted(self: HashEmbedder, text: str) -> object:
        asked.append(text)
        return embed(self, text)

    monkeypatch.setattr(HashEmbedder, "embed_query", counted)
    library.find(["left", "right"], "hotel")
    library.find(["left", "right"], "hotel", mode="lexical")
    assert asked == ["hotel"]


def test_unknown_ones_are_named(library: Library) -> None:
    with pytest.raises(UnknownCollection, match="nowhere"):
        library.find(["left", "nowhere"], "hotel")
    with pytest.raises(UnknownCollection, match="right"):
        library.only(frozenset({"left"})).find(["left", "right"], "hotel")
