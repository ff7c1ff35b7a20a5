"""The FAISS index: a search is one thread's work."""

from __future__ import annotations

import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from retriever.search.index import VectorIndex

faiss: Any = importlib.import_module("faiss")


def test_a_search_starts_no_threads(tmp_path: Path) -> None:
    """FAISS starts a team for each thread that searches, and on busy cores a search would wait for its team."""
    index = VectorIndex(tmp_path)
    vectors = np.eye(8, dtype=np.float32)
    held = faiss.IndexIDMap(faiss.IndexFlatIP(8))
    held.add_with_ids(vectors, np.arange(8))
    index._index = held

    def search() -> tuple[list[int], int, int]:
        faiss.omp_set_num_threads(2)
        before = len(os.listdir("/proc/self/task"))
        found = index.near(vectors[3], 1)
        return found[:1], len(os.listdir("/proc/self/task")) - before, faiss.omp_get_max_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(search).result() == ([3], 0, 2)
