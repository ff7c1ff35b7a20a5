"""Passages of earlier searches: whether their documents still have their texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

LONG = "\n\n".join(f"Paragraph {n} tells of the river and its {n} bridges. " * 12 for n in range(8))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path, HashEmbedder(64))
    library.create("docs").ingest(
        [
            SourceDocument(document_id="fee", text="The fee is 10 euros."),
            SourceDocument(document_id="long", text=LONG),
            SourceDocument(document_id="kept", text="Badges are blue."),
        ]
    )
    return library


def passages(library: Library) -> list[tuple[str, str, str]]:
    return [
        ("docs", one.chunk_id, one.text)
        for document in ("fee", "long", "kept")
        for one in library.collection("docs").whole(document)
    ]


def test_nothing_has_changed_at_first(library: Library) -> None:
    quoted = passages(library)
    assert len(quoted) > 4
    assert library.changed(quoted) == [False] * len(quoted)
    assert library.changed([]) == []


def test_a_replaced_text_has_changed_and_a_moved_one_has_not(library: Library) -> None:
    quoted = passages(library)
    library.collection("docs").ingest(
        [
            SourceDocument(document_id="fee", text="The fee is 25 euros."),
            SourceDocument(document_id="long", text="A new first paragraph. " * 30 + "\n\n" + LONG),
        ]
    )
    assert {one.text for one in library.collection("docs").whole("long")} != {text for _, _, text in quoted[1:-1]}
    assert library.changed(quoted) == [True, *[False] * (len(quoted) - 1)]


def test_texts_of_what_is_gone_have_changed(library: Library) -> None:
    quoted = passages(library)
    library.collection("docs").delete("long")
    assert library.changed(quoted) == [False, *[True] * (len(quoted) - 2), False]
    hidden = library.only(frozenset({"others"}))
    assert hidden.changed(quoted) == [True] * len(quoted)
    library.delete("docs")
    assert library.changed(quoted) == [True] * len(quoted)
