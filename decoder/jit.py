"""`jit`: compiles a function over arrays and numbers with numba, to the arithmetic that Python would do.

numba neither reorders sums nor fuses a product with a sum unless told to, and takes `exp` and `log` from the C library
as Python does. The machine code is kept beside the source, or in NUMBA_CACHE_DIR, or else in the user's cache folder;
where none can be written, it is compiled anew in every process.

numba looks only at the file of a function to tell whether its code is still valid. So a compiled function calls none
of another file, and a file names the `digest` of the constants in its code: where one changes, so does the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """The function, compiled at its first call for the dtypes of its arguments."""
    try:
        return _compiled(function, cache=True)
    except RuntimeError:  # no folder can be written
        return _compiled(function, cache=False)


def inlined(function: Function) -> Function:
    """The function as a part of compiled ones of its file that call it, so that loops around it take steps together."""
    part: Any = numba.njit(inline="always", error_model="numpy")(function)
    return part  # type: ignore[no-any-return]


def digest(names: Mapping[str, object]) -> str:
    """Of the numbers and arrays among a file's global names."""
    values = {name: value for name, value in names.items() if isinstance(value, (int, float, np.generic, np.ndarray))}
    text = "\n".join(f"{name} {np.asarray(value).tolist()!r}" for name, value in sorted(values.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _compiled(function: Function, cache: bool) -> Function:
    compiled: Any = numba.njit(cache=cache, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]
