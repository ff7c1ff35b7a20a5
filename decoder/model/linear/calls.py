"""Calls of machine code: functions with their fields, one at a time, or many of them, prepared once, in one go.

A call from Python, with its fields and the tensors it writes, takes some microseconds, and a pass over one row makes
four hundred. Calls that are prepared keep their fields and their tensors, and only what is another's in the next pass
is set anew.

Knows functions, numbers and memory; knows no layer, and not what a function computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.linear.run import Run


class Empty(Protocol):
    """Makes room for a tensor, as `torch.empty` does."""

    def __call__(self, *size: int, dtype: torch.dtype) -> torch.Tensor: ...


class Call(NamedTuple):
    """A call: its function, the fields, how many threads, and tensors whose addresses are among the fields."""

    function: Run
    fields: list[int]
    threads: int
    kept: tuple[torch.Tensor, ...] = ()

    def run(self) -> None:
        self.function(self.fields, self.threads)


class Calls:
    """Some calls, in order.

    Args:
        calls: at least one.

    Attributes:
        fields: int64, those of all calls behind each other; what is set there counts in the next `run`.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        memory = (tensor.untyped_storage() for call in calls for tensor in call.kept)
        self._kept = ({one.data_ptr(): one for one in memory}, [call.function for call in calls])
        ends = np.cumsum([len(call.fields) for call in calls])
        self.fields: NDArray[np.int64] = np.array([field for call in calls for field in call.fields], np.int64)
        base, size = self.fields.ctypes.data, self.fields.itemsize
        self._table: NDArray[np.int64] = np.array(
            [
                (call.function.address, base + size * (end - len(call.fields)), base + size * (end - 1), call.threads)
                for call, end in zip(calls, ends.tolist(), strict=True)
            ],
            np.int64,
        )
        parallel = ctypes.cast(calls[0].function.parallel, ctypes.c_void_p).value
        self._given = np.array([self._table.ctypes.data, len(calls), parallel, 0], np.int64)
        self._run = code()

    def places(self, tensor: torch.Tensor) -> NDArray[np.int64]:
        """Which fields are addresses within a tensor's memory, from its first number on."""
        first = tensor.data_ptr()
        return np.flatnonzero((self.fields >= first) & (self.fields < first + tensor.nbytes))

    def run(self) -> None:
        """Make the calls."""
        self._run.at(self._given)


class PreparedProduct(Protocol):
    """Multiplies rows by calls that can be prepared.

    Attributes:
        width: outputs that the code writes, with those that fill the last tile.
    """

    @property
    def width(self) -> int: ...

    def calls(self, rows: torch.Tensor, output: torch.Tensor, empty: Empty) -> list[Call]:
        """Those that multiply rows [n, in], not too many and contiguous, and write [n, width], of the same dtype.

        Args:
            empty: makes room for what they write beside the output.

        Raises:
            RuntimeError: there is no code for one of them.
        """


@cache
def code() -> Run:
    """Makes calls, one after the other.

    Raises:
        As those of the functions that are called.
    """
    from decoder.model.linear.calls_code import program

    return program().compiled("sse2")["run"]
