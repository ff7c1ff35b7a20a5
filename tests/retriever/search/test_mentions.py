"""Which documents mention some words: all of them, and no others."""

from __future__ import annotations

import pytest

from retriever import InvalidQuery, Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

PARAGRAPH = "Nothing but filling words stand here, so that a chunk ends before the next heading begins. " * 12
LEFT = {
    "travel": f"# Guide\n\nHotel limits: 140 euros.\n\n# Meals\n\n{PARAGRAPH}\n\n# Late\n\nLate at the HOTEL.",
    "leave": "Parental leave takes a year. The travel desk books nothing for it.",
    "köln": "Im Hôtel am Dom. 旅行政策适用于所有员工。",
}
RIGHT = {"travel": "Hotels are booked by the travel office, and policy is policy.", "none": "The policy of the house."}


@pytest.fixture(scope="module")
def library(each_store: str, tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(tmp_path_factory.mktemp("library"), HashEmbedder())
    for name, texts in (("left", LEFT), ("right", RIGHT)):
        sources = [SourceDocument(document_id=key, text=text, metadata={"in": name}) for key, text in texts.items()]
        library.create(name).ingest(sources)
    return library


def found(library: Library, words: str, *names: str) -> list[tuple[str, str, int]]:
    mentions = library.mentions(names or ("left", "right"), words)
    return [(one.passage.collection, one.passage.document_id, one.chunks) for one in mentions.found]


def test_every_document_is_counted_once(library: Library) -> None:
    mentions = library.mentions(["left", "right"], "hotel")
    assert mentions.documents == 5
    assert mentions.together
    assert found(library, "hotel") == [("left", "travel", 2), ("left", "köln", 1), ("right", "travel", 1)]
    assert [one.passage.rank for one in mentions.found] == [1, 2, 3]
    assert "140 euros" in mentions.found[0].passage.text, "the document's first chunk that mentions it"


def test_words_stand_together_if_they_do_so_anywhere(library: Library) -> None:
    assert found(library, "travel desk") == [("left", "leave", 1)]
    assert found(library, "parental leav") == [("left", "leave", 1)]
    assert found(library, "travel policy") == [("right", "travel", 1)]
    assert not library.mentions(["left", "right"], "travel policy").together


def test_scripts_without_spaces_and_accents(library: Library) -> None:
    assert found(library, "行政策") == [("left", "köln", 1)]
    assert found(library, "Köln hôtel") == []
    assert found(library, "hôtel", "left") == [("left", "travel", 2), ("left", "köln", 1)]


@pytest.mark.parametrize("words", ["zebra", 'or" AND (', "*", "NOT zebra"])
def test_what_nobody_mentions_is_found_nowhere(library: Library, words: str) -> None:
    assert found(library, words) == []


def test_bounds_and_filters(library: Library) -> None:
    assert [one.passage.collection for one in library.mentions(["left", "right"], "hotel", {"in": "right"}).found] == [
        "right"
    ]
    with pytest.raises(InvalidQuery):
        library.mentions(["left"], "  ")
