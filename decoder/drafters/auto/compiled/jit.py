"""`jit`: compiles a function over arrays and numbers with numba, to the arithmetic that Python would do.

numba neither reorders sums nor fuses a product with a sum unless told to, and takes `exp` and `log` from the C library
as Python does. The machine code is kept beside the source, or in NUMBA_CACHE_DIR, or else in the user's cache folder;
where none can be written, it is compiled anew in every process. numba looks only at the file of a function to tell
whether its code is still valid, so a compiled function calls none of another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """The function, compiled at its first call for the dtypes of its arguments."""
    try:
        return _compiled(function, cache=True)
    except RuntimeError:  # no folder can be written
        return _compiled(function, cache=False)


def _compiled(function: Function, cache: bool) -> Function:
    compiled: Any = numba.njit(cache=cache, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]
