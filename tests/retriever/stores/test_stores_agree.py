"""After the same changes both stores give the same passages in the same order, filters included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retriever import Library, SourceDocument, UnknownDocument
from retriever.postgres.stores import PostgresStores
from tests.support.hash_embedder import HashEmbedder
from tests.support.storage.postgres import PostgresServer
from tests.support.storage.stores import assert_same_passages

MODES: tuple[Any, ...] = ("dense", "lexical", "hybrid")
SHORT = ["zebra", "Zebras", "hotel", "das", "Häuser", "文章", "検索", "ภาษา", "b", "2024", "x\u0301", "\U0001f600"]
WORDS = st.sampled_from([*SHORT, "Zebrahotel", "hoteldashäuser"])
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
METADATA = st.dictionaries(
    st.sampled_from(["n", "tags", "date", "\ud800\0"]),
    st.one_of(
        st.integers(-3, 3), st.floats(-2, 2), st.lists(st.sampled_from(["a", 1]), max_size=2), st.text(max_size=3)
    ),
    max_size=2,
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "É", "\U0001f600"]), st.one_of(st.none(), st.tuples(TEXTS, METADATA))),
    min_size=1,
    max_size=10,
)
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"n": {"$gte": 0}},
    {"tags": {"$contains": "a"}},
    {"$or": [{"n": {"$lt": 1.5}}, {"$not": {"date": {"$gt": "0"}}}]},
    {"date": {"$in": ["", "a", 1]}, "n": {"$ne": 1}},
)


@pytest.fixture(scope="module")
def both(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, Library]]:
    folder = tmp_path_factory.mktemp("embedded")
    with postgres.database() as url:
        libraries = Library(folder, HashEmbedder()), Library(Path("unused"), HashEmbedder(), stores=PostgresStores(url))
        yield libraries
        for library in libraries:
            library.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=CHANGES, question=TEXTS)
def test_both_stores_agree(both: tuple[Library, Library], changes: list[Any], question: str) -> None:
    for library in both:
        library.create("docs")
    try:
        one, other = (library.collection("docs") for library in both)
        for identity, content in changes:
            outcomes = []
            for collection in (one, other):
                try:
                    if content is None:
                        collection.delete(identity)
                        outcomes.append("deleted")
                    else:
                        source = SourceDocument(document_id=identity, text=content[0], metadata=content[1])
                        outcomes.append(str(collection.ingest([source])))
                except (UnknownDocument, UnicodeError) as error:
                    outcomes.append(type(error).__name__)
            if outcomes[0] == "UnicodeEncodeError":  # SQLite cannot take the key; PostgreSQL's form of it can be stored
                other.delete(identity)
                if identity in {info.id for info in one.documents()}:
                    one.delete(identity)
                continue
            assert outcomes[0] == outcomes[1]
        listed = [
            [
                (info.id, info.title, info.chunks, info.bytes, info.content_hash, info.metadata)
                for info in part.documents()
            ]
            for part in (one, other)
        ]
        assert listed[0] == listed[1]
        for mode in MODES:
            for where in FILTERS:
                assert_same_passages(
                    other.search(question, 100, mode, where), one.search(question, 100, mode, where), mode
                )
        for words in question.split():
            found = [library.mentions(["docs"], words, {"n": {"$gte": 0}}) for library in both]
            assert found[0] == found[1]
            assert sorted(map(str, one.titled(words))) == sorted(map(str, other.titled(words)))
    finally:
        for library in both:
            library.delete("docs")


def test_long_documents_agree(both: tuple[Library, Library]) -> None:
    sentences = [
        f"Part {n} tells of word{n % 17} and word{n % 5} near the {'old ' * (n % 4)}house." for n in range(900)
    ]
    sources = [
        SourceDocument(document_id=f"d{n}", text="\n\n".join(sentences[n * 30 : n * 30 + 30]), metadata={"n": n % 3})
        for n in range(30)
    ]
    for library in both:
        assert len(library.create("long").ingest(sources).added) == 30
    one, other = (library.collection("long") for library in both)
    assert one.stats().chunks == other.stats().chunks >= 60
    for question in ("word3 and word4 near the house", "old old old", "part 77 tells"):
        for mode in MODES:
            for where in (None, {"n": 1}):
                assert_same_passages(
                    other.search(question, 100, mode, where), one.search(question, 100, mode, where), mode
                )
