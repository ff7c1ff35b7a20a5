"""Which core `auto` uses: the compiled one where numba is installed (`pip install -e '.[native]'`)."""

from __future__ import annotations

import functools

from decoder.drafters.auto.core import Core, ReadableCore


@functools.cache
def compiled_core() -> type[Core] | None:
    """The compiled core, its code loaded or compiled; None without numba, or with one that this numpy does not fit."""
    try:
        from decoder.drafters.auto.compiled.core import CompiledCore, warm_up
    except ImportError:
        return None
    warm_up()
    return CompiledCore


def core_for(compiled: bool | None) -> type[Core]:
    """The core for `AutoDrafter`'s option `compiled`.

    Raises:
        ValueError: it shall be compiled and cannot be.
    """
    core = compiled_core() if compiled is not False else None
    if compiled and core is None:
        raise ValueError("the compiled core needs numba; run `pip install -e '.[native]'` in the project's folder")
    return core or ReadableCore
