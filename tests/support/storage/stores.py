"""The tests of collections for both stores: with `each_store`, a library's folder stands for a folder or a database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from retriever import Passage, library
from retriever.embedded.stores import EmbeddedStores
from retriever.postgres.stores import PostgresStores
from retriever.stores.protocol import Stores
from tests.support.storage.postgres import PostgresServer

KINDS = ("embedded", "postgres")


@contextlib.contextmanager
def kept_in(kind: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Libraries of one folder share the folder, or a database that stands for it."""
    if kind == "embedded":
        yield
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        urls: dict[Path, str] = {}

        def database(data_dir: Path) -> Stores:
            if data_dir not in urls:
                urls[data_dir] = stack.enter_context(server.database())
            opened = PostgresStores(urls[data_dir])
            stack.callback(opened.close)
            return opened

        assert library.EmbeddedStores is EmbeddedStores
        patch.setattr(library, "EmbeddedStores", database)
        yield


@pytest.fixture(scope="module", params=KINDS)
def each_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the store that keeps all collections meanwhile."""
    with kept_in(request.param, request):
        yield request.param


@pytest.fixture(params=KINDS)
def either_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """As `each_store`, for single tests of a module."""
    with kept_in(request.param, request):
        yield request.param


def assert_same_passages(found: Sequence[Passage], expected: Sequence[Passage], mode: str) -> None:
    """The same passages with the same scores in the same order; near-equal scores may change places.

    Hybrid scores are in standard deviations, which can be small: there the last digits of a cosine count more.
    """
    near = 1e-3 if mode == "hybrid" else 1e-6
    assert len(found) == len(expected)
    scores = {passage.chunk_id: passage.score for passage in expected}
    for one, other in zip(found, expected, strict=True):
        assert one.chunk_id == other.chunk_id or abs(scores[one.chunk_id] - other.score) <= near
        assert abs(one.score - scores[one.chunk_id]) <= near
