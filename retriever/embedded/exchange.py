"""Two folders exchange their names in one step, so that each name has one of them at every moment.

Linux and macOS have a call for it, which Python has no function for.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

from retriever.errors import RetrieverError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchanged(one: Path, other: Path) -> None:
    """Raises FileNotFoundError if one is missing, and RetrieverError where the file system cannot do it."""
    first, second = os.fsencode(one), os.fsencode(other)
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, ctypes.c_uint(_RENAME_SWAP))
        else:
            failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_RENAME_EXCHANGE))
        code = ctypes.get_errno() if failed else 0
    except AttributeError:  # a C library without the call
        code = errno.ENOSYS
    if code in _UNABLE:
        raise RetrieverError(
            f"the file system of {one.parent} cannot exchange two folders in one step ({os.strerror(code)}); copy the "
            "data folder to one that can, such as ext4, XFS, Btrfs or APFS"
        )
    if code:
        raise OSError(code, os.strerror(code), str(one), None, str(other))
