"""Names of files as they are sent. Knows characters; knows no files."""

from __future__ import annotations

import re

LONGEST = 500
"""Characters of a name that the service takes."""

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def sendable(name: str) -> str:
    """The name with U+FFFD for what is no text: bytes that are not UTF-8, line breaks, control characters.

    One that is too long is cut to what is still too long, as an upload has no room for all of it. The service refuses a
    file of such a name, that one alone, and its job says why.
    """
    return _UNFIT.sub("\ufffd", name)[: LONGEST + 1]
