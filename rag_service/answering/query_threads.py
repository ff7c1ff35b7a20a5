"""How many threads of torch embed a question, in a process that embeds nothing else. Knows times; knows no model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from statistics import median

log = logging.getLogger(__name__)

ROUNDS = 5
WORTH = 1.5
"""All threads are used where they are so many times as fast as one."""
QUESTION = "How many days of paid leave does an employee have who began in the middle of the year?"


def settle(embed: Callable[[str], object]) -> None:
    """Leave torch one thread, unless all of them embed a question much faster. Call it before other threads use torch.

    A small model's question takes one thread as long as two, and on cores that a decoder keeps busy the two wait for
    each other: 32 ms instead of 13 in the median, and up to 430.
    """
    import torch

    threads = torch.get_num_threads()
    if threads == 1:
        return
    times: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(ROUNDS):
        for count, taken in times.items():
            torch.set_num_threads(count)
            embed(QUESTION)  # the first one with a new number of threads makes them
            begun = time.perf_counter()
            embed(QUESTION)
            taken.append(time.perf_counter() - begun)
    one, all_threads = (median(taken) for taken in times.values())
    if all_threads * WORTH > one:
        torch.set_num_threads(1)
    log.info("a question is embedded in %.0f ms by one thread, %.0f by %d", 1e3 * one, 1e3 * all_threads, threads)
