"""Work in a thread of its own, beside its caller's. Knows threads; knows nothing of the work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def begun(work: Callable[[], Result]) -> Future[Result]:
    """Begin `work`; the future has what it returns or raises."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # the one who waits gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
