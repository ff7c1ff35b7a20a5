"""Torch's threads are given back, so that those of another thread's pool do not sleep between pieces of work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from decoder import openmp

COUNTED = """
import os, threading, time
import torch
from decoder.openmp import give_back_threads

torch.set_num_threads(3)
count = lambda: len(os.listdir("/proc/self/task"))
square = torch.ones(600, 600)

def after(wanted):  # a thread that ended is listed for a moment more
    until = time.monotonic() + 20
    while count() != wanted and time.monotonic() < until:
        time.sleep(0.01)
    return count()

filled = count()
give_back_threads()  # those that filled it
after(filled - 2)
for _ in range(3):
    before = count()
    assert float((square * 2).exp().log().sum()) > 0
    more = count() - before
    assert more > 0, "no parallel work"
    assert give_back_threads()
    assert after(before) == before, (before, more, count())
print("given back", more)
"""


def has_gnu_openmp() -> bool:
    try:
        return hasattr(openmp.library(), "omp_pause_resource_all")
    except OSError:
        return False


@pytest.mark.skipif(not has_gnu_openmp(), reason="torch has no GNU OpenMP here")
def test_a_threads_pool_ends_and_the_next_work_makes_a_new_one() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("given back"), done.stderr


def test_without_torch_nothing_is_loaded_or_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert not openmp.give_back_threads()


def test_without_gnu_openmp_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("no libgomp")

    monkeypatch.setattr(openmp, "library", missing)
    assert not openmp.give_back_threads()
