"""The embedded store's searches: beside each other, filters remembered only while nothing changes, files of any age."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retriever import Library, SourceDocument
from retriever.embedded.stores import EmbeddedStore
from retriever.search import index
from retriever.stores.passing import MOST, PassingRows
from tests.support.hash_embedder import HashEmbedder


def library_with(folder: Path, teams: dict[str, str]) -> Library:
    library = Library(folder, HashEmbedder(64))
    library.create("docs").ingest(
        [SourceDocument(document_id=key, text=f"text {key}", metadata={"team": team}) for key, team in teams.items()]
    )
    return library


def test_a_remembered_filter_sees_changes(tmp_path: Path) -> None:
    library = library_with(tmp_path, {"a": "red", "b": "blue"})
    collection = library.collection("docs")
    for _ in range(2):
        assert [one.document_id for one in collection.search("text", 5, filter={"team": "red"})] == ["a"]
    collection.ingest([SourceDocument(document_id="c", text="text c", metadata={"team": "red"})])
    assert {one.document_id for one in collection.search("text", 5, filter={"team": "red"})} == {"a", "c"}
    collection.delete("a")
    assert [one.document_id for one in collection.search("text", 5, filter={"team": "red"})] == ["c"]


def test_the_same_filter_is_read_once_and_few_are_kept(tmp_path: Path) -> None:
    library_with(tmp_path, {"a": "red"})
    with EmbeddedStore(tmp_path / "collections" / "docs", "docs").read() as snapshot:
        facts = snapshot.facts()
    rows, read = PassingRows(), list[object]()

    def passing(where: object) -> np.ndarray:
        read.append(where)
        return np.array([1], np.int64)

    for _ in range(2):
        rows.get(facts, {"team": "red"}, passing)
    assert len(read) == 1
    for number in range(MOST):
        rows.get(facts, {"team": number}, passing)
    rows.get(facts, {"team": "red"}, passing)
    assert len(read) == MOST + 2


def test_a_search_does_not_wait_for_another(tmp_path: Path) -> None:
    library_with(tmp_path, {"a": "red"})
    store = EmbeddedStore(tmp_path / "collections" / "docs", "docs")
    with store.search():
        pass  # the index holds what is stored
    with store.search() as one, store.search() as two:
        assert one.totals() == two.totals()


def test_an_index_of_another_number_format_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FEW", 0)
    library_with(tmp_path, {"a": "red", "b": "blue"})
    file = tmp_path / "collections" / "docs" / index.FILE_NAME
    held = index.faiss.read_index(str(file))
    assert isinstance(index.faiss.downcast_index(held.index), index.faiss.IndexScalarQuantizer)
    other = index.faiss.IndexIDMap(index.faiss.IndexFlatIP(held.d))
    other.add_with_ids(np.ones((2, held.d), np.float32), np.array([1, 2], np.int64))
    index.faiss.write_index(other, str(file))
    (first, _) = Library(tmp_path, HashEmbedder(64)).collection("docs").search("text a", 2, "dense")
    assert first.document_id == "a"
