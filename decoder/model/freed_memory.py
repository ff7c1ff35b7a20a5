"""Hands memory that was freed back to the system: glibc keeps what lies below blocks that are still in use."""

from __future__ import annotations

import contextlib
import ctypes


def give_back() -> None:
    """Give it back now; does nothing with another C library."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
