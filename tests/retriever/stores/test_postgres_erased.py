"""What is left in PostgreSQL's files of a deleted document, before and after what its documentation tells to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from retriever import Library, SourceDocument
from retriever.postgres.stores import PostgresStores
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer

MARKER = "zebrafinch"
GUIDE = Path(__file__).parents[3] / "docs/how-to/postgresql.md"
IN_THE_TABLES = ("ANALYZE", "VACUUM FULL")
IN_THE_LOG = ("ALTER SYSTEM SET wal_recycle = off", "SELECT pg_reload_conf()", "SELECT pg_switch_wal()", "CHECKPOINT")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of its own: the others' logs have other tests' texts."""
    with PostgresServer() as server:
        yield server


def places(server: PostgresServer) -> set[str]:
    """The folders of the server's data in which the marker is."""
    words = (MARKER.encode(), MARKER.upper().encode())
    found = set()
    for path in server.data.rglob("*"):
        if path.is_file() and any(word in path.read_bytes() for word in words):
            found.add(path.relative_to(server.data).parts[0])
    return found


def test_a_deleted_document_is_in_no_file_after_what_the_guide_says(server: PostgresServer, tmp_path: Path) -> None:
    guide = " ".join(GUIDE.read_text().split())
    for statement in (*IN_THE_TABLES, *IN_THE_LOG):
        assert statement in guide, statement
    upload = tmp_path / f"{MARKER}.md"
    upload.write_text(f"# The {MARKER}\n\nThe {MARKER} sings in the old garden.\n")
    with server.database() as url:
        name = url.split("/")[3].partition("?")[0]
        library = Library(tmp_path, HashEmbedder(), stores=PostgresStores(url), keep_originals=True)
        docs = library.create("docs")
        others = [SourceDocument(document_id=f"o{one}", text=f"The fox {one} sleeps.") for one in range(20)]
        docs.ingest([*others, SourceDocument(name=upload.name, path=upload, metadata={"bird": MARKER})], job="job")
        (document,) = [one.id for one in docs.documents() if MARKER in one.id]
        server.execute("ANALYZE", name)
        server.execute("CHECKPOINT")
        assert places(server) == {"base", "pg_wal"}
        docs.delete(document)
        server.execute("CHECKPOINT")
        assert "base" in places(server), "a deletion alone leaves it there, as the guide says"
        with psycopg.connect(url, autocommit=True) as owner:
            for statement in IN_THE_TABLES:
                owner.execute(statement.encode())
        server.execute("CHECKPOINT")
        assert "base" not in places(server)
        for statement in IN_THE_LOG:
            server.execute(statement, name)
        assert places(server) == set()
        assert MARKER not in (server.folder / "log").read_text().lower()
        assert [one.document_id for one in docs.search("fox 3", 1, "lexical")] == ["o3"]
        library.close()
