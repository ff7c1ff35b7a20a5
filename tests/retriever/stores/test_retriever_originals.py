"""Uploaded files that are kept with their documents, and go with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import Library, SourceDocument, UnknownDocument
from retriever.stores.originals import PIECE_BYTES
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("either_store")

BIG = b"# Foxes\n\nThe quick brown fox.\n\n" + b"Foxes jump over dogs.\n" * (2 * PIECE_BYTES // 20)


def ingest(library: Library, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    report = library.create("c", exist_ok=True).ingest(
        [SourceDocument(name="foxes.md", path=path, document_id="foxes")]
    )
    assert not report.failures


def kept(library: Library) -> bytes | None:
    original = library.collection("c").original("foxes")
    if original is None:
        return None
    content = b"".join(original.pieces)
    assert len(content) == original.size
    return content


def test_a_file_is_kept_replaced_and_deleted_with_its_document(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", HashEmbedder(), keep_originals=True)
    ingest(library, tmp_path / "upload", BIG)
    assert kept(library) == BIG
    ingest(library, tmp_path / "upload", b"Cats.")
    assert kept(library) == b"Cats."
    library.collection("c").delete("foxes")
    with pytest.raises(UnknownDocument):
        kept(library)
    with library.collection("c")._store.read() as snapshot:
        (count,) = snapshot.connection.execute("SELECT count(*) FROM originals").fetchone()
    assert count == 0
    library.close()


def test_without_the_setting_none_is_kept_and_with_it_the_next_upload_is(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", HashEmbedder())
    ingest(library, tmp_path / "upload", b"Foxes.")
    assert kept(library) is None
    library.close()
    library = Library(tmp_path / "data", HashEmbedder(), keep_originals=True)
    ingest(library, tmp_path / "upload", b"Foxes.")
    assert kept(library) == b"Foxes.", "although its text has not changed"
    library.collection("c").ingest([SourceDocument(document_id="text", text="Dogs.")])
    assert library.collection("c").original("text") is None
    library.close()


def test_a_file_that_goes_while_it_is_read_ends_early(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", HashEmbedder(), keep_originals=True)
    ingest(library, tmp_path / "upload", BIG)
    original = library.collection("c").original("foxes")
    assert original is not None
    first = next(original.pieces)
    ingest(library, tmp_path / "upload", BIG.upper())
    assert first + b"".join(original.pieces) == BIG[:PIECE_BYTES], "never a mixture of two files"
    library.close()
