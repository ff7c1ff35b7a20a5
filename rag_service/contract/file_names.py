"""File names as a client sends them. Knows characters; opens no files."""

from __future__ import annotations

import re

MAX_CHARS = 500
"""Longest file name that the service accepts, in characters."""

_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def sendable(name: str) -> str:
    """The name with U+FFFD in place of bytes that are not UTF-8, line breaks and control characters.

    A name above MAX_CHARS is cut to MAX_CHARS + 1 characters, since an upload may have no room for all of it. It stays
    too long, so the ingest job skips this one file and gives the reason.
    """
    return _NOT_TEXT.sub("\ufffd", name)[: MAX_CHARS + 1]
