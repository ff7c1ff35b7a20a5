"""Vectors in half precision: smaller files, and searches do not show it; older collections keep what they have."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from retriever import Collection, Library, SourceDocument
from retriever.stores import store, vectors
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.earlier_layouts import to_layout_2

DIMENSION = 64
WORDS = ["hotel", "train", "meal", "night", "fire", "office", "leave", "policy", "salary", "key", "lamp", "river"]


def sources() -> list[SourceDocument]:
    texts = [" ".join(np.random.default_rng(n).choice(WORDS, 20)) for n in range(60)]
    return [SourceDocument(document_id=f"d{n:02}", text=text) for n, text in enumerate(texts)]


def new(folder: Path, embedder: HashEmbedder | None = None) -> Collection:
    collection = Library(folder, embedder or HashEmbedder(DIMENSION)).create("docs")
    collection.ingest(sources())
    return collection


@pytest.fixture
def older(tmp_path: Path) -> Collection:
    """A collection of layout 2: vectors in float32, and no word of it."""
    collection = new(tmp_path / "older")
    collection.close()
    (file,) = tmp_path.rglob(store.FILE_NAME)
    with sqlite3.connect(file) as connection:
        to_layout_2(connection)
    connection.close()
    return Library(tmp_path / "older", HashEmbedder(DIMENSION)).collection("docs")


def lengths(collection: Collection) -> set[int]:
    with sqlite3.connect(collection._store._file.path) as connection:
        found = {length for (length,) in connection.execute("SELECT length(vector) FROM chunks")}
    connection.close()
    return found


def test_a_rounded_vector_is_as_near_as_before() -> None:
    rng = np.random.default_rng(1)
    for dimension in (8, 384, 4096):
        pair = rng.standard_normal((2, dimension)).astype(np.float32)
        one, other = pair / np.linalg.norm(pair, axis=1, keepdims=True)
        (kept,) = vectors.from_bytes([vectors.to_bytes(one, "float16")], "float16", dimension)
        assert kept.dtype == np.float32
        assert abs(float(kept @ other - one @ other)) < 0.0005
        assert abs(float(kept @ one) - 1.0) < 1e-6
        (whole,) = vectors.from_bytes([vectors.to_bytes(one, "float32")], "float32", dimension)
        np.testing.assert_array_equal(whole, one)


def test_a_new_collection_keeps_two_bytes_a_number_and_its_cosines(tmp_path: Path) -> None:
    embedder = HashEmbedder(DIMENSION)
    collection = new(tmp_path, embedder)
    assert lengths(collection) == {2 * DIMENSION}
    assert (collection.stats().vector_dtype, collection.stats().embedder_dtype) == ("float16", "float32")
    embedded = {text for call in embedder.calls for text in call}
    for question in ("hotel and train", "salary", "the river by night"):
        for passage in collection.search(question, 100, "dense"):
            (text,) = (text for text in embedded if passage.text in text)
            exact = embedder.embed_query(question) @ embedder.embed_query(text)
            assert passage.score == pytest.approx(float(exact), abs=1e-3)


def test_an_older_collection_keeps_float32_also_for_new_documents(older: Collection, tmp_path: Path) -> None:
    current = new(tmp_path / "new")
    assert older.stats().vector_dtype == older.stats().embedder_dtype == "float32"
    for mode in ("dense", "hybrid"):
        for question in ("hotel and train", "salary", "the river by night"):
            one, other = (collection.search(question, 20, mode) for collection in (older, current))  # type: ignore[arg-type]
            assert [p.document_id for p in one] == [p.document_id for p in other]
            np.testing.assert_allclose([p.score for p in one], [p.score for p in other], atol=1e-3)
    older.ingest([SourceDocument(document_id="more", text="A lamp in the office.")])
    assert lengths(older) == {4 * DIMENSION}
    assert older.search("A lamp in the office.", 1, "dense")[0].document_id == "more"


def test_the_numbers_that_are_kept_can_be_kept_elsewhere() -> None:
    generator = np.random.default_rng(5)
    for dtype in ("float16", "float32"):
        blob = vectors.to_bytes(generator.normal(size=384).astype(np.float32), dtype)
        assert vectors.to_bytes(vectors.as_kept(blob, dtype), dtype) == blob
        assert np.linalg.norm(vectors.as_kept(blob, dtype)) > 2  # as it is, and not brought to length 1


def test_what_is_stored_is_stored_again_without_loss(tmp_path: Path) -> None:
    """A vector that another document's chunk already has is read from the file, rounded, and written again."""
    collection = new(tmp_path)
    text = sources()[0].text
    collection.ingest([SourceDocument(document_id="again", text=text, title="")])
    with sqlite3.connect(collection._store._file.path) as connection:
        rows = connection.execute(
            "SELECT count(DISTINCT vector), count(*) FROM chunks GROUP BY embedded_hash"
        ).fetchall()
    connection.close()
    assert (1, 2) in rows
    assert {distinct for distinct, _ in rows} == {1}
