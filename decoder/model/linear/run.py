"""A function of machine code, as Python calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Run:
    """A function of machine code (`machine_code.py`).

    Args:
        engine: owns the code.
        name: of the function.
        fields: how many it has.
        parallel: OpenMP's function that calls another on several threads.
    """

    def __init__(self, engine: Any, name: str, fields: int, parallel: Any) -> None:
        self.address: int = engine.get_function_address(name)
        self.parallel = parallel
        self._alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address)
        self._numbers = ctypes.c_int64 * fields
        self._engine = engine

    def __call__(self, fields: Sequence[int], threads: int) -> None:
        """Call it with these fields on a number of threads."""
        given = self._numbers(*fields)
        if threads == 1:
            self._alone(ctypes.addressof(given))
        else:
            self.parallel(self.address, ctypes.addressof(given), threads, 0)

    def at(self, fields: NDArray[np.int64]) -> None:
        """Call it with the fields that lie here on this thread."""
        self._alone(fields.ctypes.data)
