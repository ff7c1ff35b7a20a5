"""Passages with the text around them, the same in both stores."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from retriever import Collection, Library, Passage, SourceDocument
from retriever.search import around as module
from retriever.search.around import around
from tests.support.hash_embedder import HashEmbedder

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


def section(level: int, name: str, paragraphs: int) -> str:
    texts = [f"{name} {number}: " + " ".join(WORDS * 12) + "." for number in range(paragraphs)]
    return "#" * level + f" {name}\n\n" + "\n\n".join(texts) + "\n\n"


TEXT = section(1, "Guide", 1) + section(2, "Travel", 4) + section(3, "Trains", 3) + section(2, "Food", 3)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory, each_store: str) -> Collection:
    library = Library(tmp_path_factory.mktemp("data"), HashEmbedder())
    collection = library.create("guides")
    collection.ingest([SourceDocument(document_id="guide", text=TEXT), SourceDocument(document_id="own", text="One.")])
    return collection


def test_the_chunks_before_and_after(collection: Collection) -> None:
    found = collection.whole("guide")
    text = collection.get("guide").text
    assert len(found) > 8
    (wide,) = around(collection, [found[4]], neighbours=2)
    assert wide == replace(
        found[4],
        text=text[found[2].source_start : found[6].source_end],
        source_start=found[2].source_start,
        source_end=found[6].source_end,
        rank=1,
    )
    (first,) = around(collection, [found[0]], neighbours=5)
    assert (first.source_start, first.source_end) == (0, found[5].source_end)
    assert around(collection, found[3:5]) == found[3:5]


def test_the_section_with_its_subsections(collection: Collection) -> None:
    found = collection.whole("guide")
    text = collection.get("guide").text
    travel = next(one for one in found if (one.heading or "").endswith("Travel"))
    trains = next(one for one in found if (one.heading or "").endswith("Trains"))
    (wide,) = around(collection, [travel], section=True)
    assert wide.text.startswith("## Travel")
    assert "Trains 2:" in wide.text
    assert "Food" not in wide.text
    assert "Guide 0" not in wide.text
    (below,) = around(collection, [trains], section=True)
    assert below.text.startswith("### Trains")
    assert "Travel" not in below.text
    (both,) = around(collection, [trains], section=True, neighbours=1)
    assert both.source_start < below.source_start
    assert both.text == text[both.source_start : both.source_end]


def test_the_sections_of_a_passage_of_two(tmp_path: Path) -> None:
    rest = "## Rest\n\n" + ("Rest begins at noon. " * 12 + "\n\n") * 6
    texts = [section(2, "Pay", 1), "## Tea\n\nGreen.\n\n", rest, section(2, "Sick", 1)]
    collection = Library(tmp_path, HashEmbedder()).create("guides")
    collection.ingest([SourceDocument(document_id="guide", text="".join(texts))])
    found = collection.whole("guide")
    both = next(one for one in found if one.heading == "Tea / Rest")
    (wide,) = around(collection, [both], section=True)
    assert wide.text.startswith("## Tea")
    assert wide.text.rstrip().endswith("Rest begins at noon.")
    assert len(wide.text) > len(both.text)
    assert "Sick 0" not in wide.text


def test_a_section_is_bounded_around_its_passage(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECTION_CHARS", 3000)
    found = collection.whole("guide")
    (wide,) = around(collection, [found[3]], section=True)
    assert len(found[3].text) < len(wide.text) <= 3000
    assert wide.source_start <= found[3].source_start < found[3].source_end <= wide.source_end


@pytest.mark.parametrize("seed", range(30))
def test_no_text_comes_twice_and_offsets_hold(collection: Collection, seed: int) -> None:
    chance = random.Random(seed)
    found = [*collection.whole("guide"), *collection.whole("own")]
    ranked = [replace(one, rank=n + 1) for n, one in enumerate(chance.sample(found, 6))]
    wide = around(collection, ranked, chance.randrange(4), chance.random() < 0.5)
    assert [one.rank for one in wide] == list(range(1, len(wide) + 1))
    seen: set[tuple[str, int]] = set()
    for one in wide:
        assert one.text == collection.get(one.document_id).text[one.source_start : one.source_end]
        places = {(one.document_id, offset) for offset in range(one.source_start, one.source_end)}
        assert seen.isdisjoint(places)
        seen |= places
    for one in ranked:  # nothing that was found is lost
        assert {(one.document_id, one.source_start), (one.document_id, one.source_end - 1)} <= seen


@pytest.mark.usefixtures("each_store")
def test_a_document_that_changed_meanwhile_gives_its_passages_as_found(tmp_path: Path) -> None:
    library = Library(tmp_path, HashEmbedder())
    collection = library.create("guides")
    collection.ingest([SourceDocument(document_id="a", text=TEXT), SourceDocument(document_id="b", text=TEXT)])
    found: list[Passage] = [collection.whole("a")[2], collection.whole("b")[2]]
    collection.delete("a")
    collection.ingest([SourceDocument(document_id="b", text="Something else.")])
    assert around(collection, found, 2, True) == [replace(one, rank=n + 1) for n, one in enumerate(found)]
    library.close()
