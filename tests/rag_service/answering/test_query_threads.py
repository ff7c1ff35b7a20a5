"""Threads that embed a question: one, unless all are much faster."""

from __future__ import annotations

import pytest
import torch

from rag_service.answering import query_threads


class Machine:
    """A question takes `seconds` of the present number of threads."""

    def __init__(self, seconds: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.threads, self.now, self.asked = seconds, max(seconds), 0.0, 0
        monkeypatch.setattr(torch, "get_num_threads", lambda: self.threads)
        monkeypatch.setattr(torch, "set_num_threads", self._set)
        monkeypatch.setattr("rag_service.answering.query_threads.time.perf_counter", lambda: self.now)

    def _set(self, threads: int) -> None:
        self.threads = threads

    def embed(self, question: str) -> None:
        self.asked += 1
        self.now += self.seconds[self.threads]


@pytest.mark.parametrize(
    ("seconds", "threads"),
    [
        pytest.param({1: 0.012, 2: 0.012}, 1, id="two are no faster"),
        pytest.param({1: 0.012, 2: 0.030}, 1, id="two wait for busy cores"),
        pytest.param({1: 0.120, 16: 0.090}, 1, id="a little faster"),
        pytest.param({1: 0.300, 16: 0.050}, 16, id="much faster"),
    ],
)
def test_one_thread_unless_all_are_much_faster(
    seconds: dict[int, float], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(seconds, monkeypatch)
    query_threads.settle(machine.embed)
    assert machine.threads == threads


def test_a_single_thread_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({1: 0.012}, monkeypatch)
    query_threads.settle(machine.embed)
    assert machine.asked == 0
