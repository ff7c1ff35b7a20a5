"""Torch's threads: GNU OpenMP's, and when they are given back.

Each thread of a program that computes in parallel has a pool of its own. If all pools together have more threads than
there are processors, GNU OpenMP lets a thread sleep at once that waits for work, where it would look for it in a loop
for some milliseconds otherwise. A pass over one row gives its threads two hundred short pieces of work, and waking them
takes a quarter of its time. So threads that have loaded or embedded something give their pools back.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path

SOFT = 1
"""`omp_pause_soft`: what was set stays set."""


def library() -> ctypes.CDLL:
    """The library whose threads torch uses: a second set of threads would wait for the same cores.

    Raises:
        OSError: torch has no GNU OpenMP.
    """
    torch = find_spec("torch")
    folder = Path(torch.origin).parent if torch is not None and torch.origin else None
    if folder is not None and (beside := sorted((folder / "lib").glob("libgomp*.so*"))):
        return ctypes.CDLL(str(beside[0]))
    return ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)  # if torch has loaded it


def give_back_threads() -> bool:
    """End the pool of the calling thread; the next parallel work makes a new one. False where there is no way to."""
    if "torch" not in sys.modules:
        return False
    try:
        pause = library().omp_pause_resource_all  # OpenMP 5
    except (OSError, AttributeError):
        return False
    pause.argtypes, pause.restype = [ctypes.c_int], ctypes.c_int
    return bool(pause(SOFT) == 0)
