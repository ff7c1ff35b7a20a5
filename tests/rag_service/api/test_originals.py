"""Uploaded files over HTTP: only as downloads, for those who may read the document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retriever import Library, SourceDocument
from tests.support.api_keys import add_key
from tests.support.hash_embedder import HashEmbedder

FILES = {
    "foxes.md": ("text/markdown; charset=utf-8", b"# Foxes\n\nFoxes jump."),
    "page.html": ("application/octet-stream", b"<script>alert(1)</script><p>Dogs sleep.</p>"),
    'Größe; "a".txt': ("text/plain; charset=utf-8", b"Cats purr."),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    library = Library(tmp_path / "data", HashEmbedder(), keep_originals=True)
    collection = library.create("c")
    for number, (name, (_, content)) in enumerate(FILES.items()):
        (tmp_path / "upload").write_bytes(content)
        collection.ingest([SourceDocument(name=name, path=tmp_path / "upload", document_id=f"d{number}")])
    collection.ingest([SourceDocument(document_id="text", text="Only text.")])
    library.close()
    return tmp_path / "data"


async def test_a_file_is_a_download_that_no_browser_runs(make_client: Any, world: Any, folder: Path) -> None:
    async with make_client(world.redis_url, folder) as client:
        for number, (media_type, content) in enumerate(FILES.values()):
            answer = await client.get(f"/v1/collections/c/documents/d{number}/original")
            assert (answer.status_code, answer.content) == (200, content)
            assert answer.headers["content-type"] == media_type
            assert answer.headers["content-disposition"].startswith("attachment; ")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert int(answer.headers["content-length"]) == len(content)
        assert answer.headers["content-disposition"].endswith("''Gr%C3%B6%C3%9Fe%3B%20%22a%22.txt")


async def test_what_is_not_kept_is_not_found(make_client: Any, world: Any, folder: Path) -> None:
    async with make_client(world.redis_url, folder) as client:
        for path, code in (
            ("c/documents/text", "no_original"),
            ("c/documents/none", "unknown_document"),
            ("none/documents/d0", "unknown_collection"),
        ):
            answer = await client.get(f"/v1/collections/{path}/original")
            assert (answer.status_code, answer.json()["code"]) == (404, code)
        assert (await client.delete("/v1/collections/c/documents/d0")).status_code == 204
        assert (await client.get("/v1/collections/c/documents/d0/original")).status_code == 404


async def test_only_who_may_read_the_document_may_read_its_file(make_client: Any, world: Any, folder: Path) -> None:
    async with make_client(world.redis_url, folder, open_without_key=False) as client:
        path = "/v1/collections/c/documents/d0/original"
        assert (await client.get(path)).status_code == 401
        _, other = add_key(client.pipeline.api_keys, "other", "default", role="reader", collections=["d"])
        _, reader = add_key(client.pipeline.api_keys, "reader", "default", role="reader", collections=["c"])
        for key, status in ((other, 404), (reader, 200)):
            assert (await client.get(path, headers={"Authorization": f"Bearer {key}"})).status_code == status
