"""Text that is not UTF-8, on the command line or from a pipe. Python has a lone surrogate for each of its bytes."""

from __future__ import annotations

import re

from rag_service.cli.console import CliError
from rag_service.stack.exit_status import USAGE

_NO_TEXT = re.compile("[\ud800-\udfff]")
_OF_BYTES = range(0xDC80, 0xDD00)


def check_text(text: str) -> None:
    """Raises CliError for text that cannot be sent."""
    if found := _NO_TEXT.search(text):
        code = ord(found[0])
        what = f"the byte 0x{code - 0xDC00:02X}, so it" if code in _OF_BYTES else f"the sign U+{code:04X}, which"
        raise CliError(
            f"The text has {what} is not UTF-8. Give it in UTF-8; `iconv -f latin1 -t utf-8` converts Latin-1.",
            USAGE,
        )


def shown(text: str) -> str:
    """The text with question marks for what cannot be printed."""
    return text.encode(errors="replace").decode()
