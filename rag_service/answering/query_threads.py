"""How many threads of torch embed a question beside a decoder. Knows embedders and the clock."""

from __future__ import annotations

import logging
import time
from statistics import median

from retriever import SentenceTransformerEmbedder

log = logging.getLogger(__name__)

ROUNDS = 5
WORTH = 1.5
"""All threads are used where they are so many times as fast as one."""
QUESTION = "How many days of paid leave does an employee have who began in the middle of the year?"


def settle(embedder: SentenceTransformerEmbedder) -> None:
    """Let one thread embed questions, unless all of torch's are much faster. Passages keep all of them.

    A small model's question takes one thread as long as two, and on cores that a decoder keeps busy the two wait for
    each other: 24 to 34 ms instead of 15 to 19 in the median, and up to 146. Raises EmbedderUnavailable.
    """
    import torch

    threads = torch.get_num_threads()
    if threads == 1:
        return
    times: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(ROUNDS):
        for count, taken in times.items():
            embedder.query_threads = count
            embedder.embed_query(QUESTION)  # the first one with a new number of threads makes them
            begun = time.perf_counter()
            embedder.embed_query(QUESTION)
            taken.append(time.perf_counter() - begun)
    one, all_threads = (median(taken) for taken in times.values())
    embedder.query_threads = 1 if all_threads * WORTH > one else None
    log.info("a question is embedded in %.0f ms by one thread, %.0f by %d", 1e3 * one, 1e3 * all_threads, threads)
