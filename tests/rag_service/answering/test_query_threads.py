"""Threads that embed a question: one, unless all are much faster; passages keep all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rag_service.answering import query_threads
from retriever import SentenceTransformerEmbedder


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of torch's threads, last of the list; a machine of sixteen."""
    counts = [16]
    monkeypatch.setattr(torch, "get_num_threads", lambda: counts[-1])
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    return counts


class Timed(SentenceTransformerEmbedder):
    """A question takes the seconds of the threads that embed it."""

    def __init__(self, folder: Path, seconds: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.now, self.asked = 0.0, 0
        self._seconds = seconds
        monkeypatch.setattr("rag_service.answering.query_threads.time.perf_counter", lambda: self.now)

    def embed_query(self, text: str, /) -> Any:
        self.asked += 1
        self.now += self._seconds[self.query_threads or max(self._seconds)]


@pytest.mark.parametrize(
    ("seconds", "settled"),
    [
        pytest.param({1: 0.012, 16: 0.012}, 1, id="all are no faster"),
        pytest.param({1: 0.012, 16: 0.030}, 1, id="all wait for busy cores"),
        pytest.param({1: 0.120, 16: 0.090}, 1, id="a little faster"),
        pytest.param({1: 0.300, 16: 0.050}, None, id="much faster"),
    ],
)
def test_one_thread_unless_all_are_much_faster(
    seconds: dict[int, float],
    settled: int | None,
    threads: list[int],
    tiny_models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = Timed(tiny_models / "tiny-embedder", seconds, monkeypatch)
    query_threads.settle(embedder)
    assert embedder.query_threads == settled


def test_a_single_thread_is_not_measured(
    threads: list[int], tiny_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads.append(1)
    embedder = Timed(tiny_models / "tiny-embedder", {1: 0.012}, monkeypatch)
    query_threads.settle(embedder)
    assert (embedder.asked, embedder.query_threads) == (0, None)


def test_passages_keep_all_threads_and_torch_its_number(threads: list[int], tiny_models: Path) -> None:
    embedder = SentenceTransformerEmbedder(tiny_models / "tiny-embedder")
    embedder.load()
    embedder.query_threads = 1
    del threads[1:]
    embedder.embed_query("a question")
    assert threads == [16, 1, 16]
    embedder.embed_documents(["a passage"])
    assert set(threads[3:]) <= {16}
