"""Text recognition (OCR) of a PDF's pages without text, by Tesseract, where it is installed.

Runs in the reading process: pages go to Tesseract's standard input and text comes from its output, so that it needs no
file. Knows no setting but the languages and the seconds that it is given.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from retriever.errors import UnreadableDocument

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

Recogniser = Callable[["PdfDocument", Sequence[int]], Mapping[int, str]]
"""The texts of a PDF's pages, by their numbers from 0."""
COMMAND = "tesseract"
DPI = 300
MOST_PIXELS = 25_000_000
"""Larger pages are drawn smaller."""


def installed() -> bool:
    return shutil.which(COMMAND) is not None


def languages() -> frozenset[str] | None:
    """Those that Tesseract has data for, as it names them; None if it is not installed. Raises UnreadableDocument."""
    if not installed():
        return None
    try:
        listed = subprocess.run([COMMAND, "--list-langs"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreadableDocument(f"Tesseract cannot be started ({error})") from None
    return frozenset(line.strip() for line in listed.stdout.splitlines()[1:])


def recognised(document: PdfDocument, pages: Sequence[int], languages: str, seconds: float) -> dict[int, str]:
    """The text of `pages` (numbers from 0). `languages` as Tesseract names them: `eng+nld`.

    Raises UnreadableDocument if it takes longer than `seconds`, or if Tesseract fails.
    """
    deadline = time.monotonic() + seconds
    return {number: _text(_picture(document, number), languages, deadline) for number in pages}


def _picture(document: PdfDocument, number: int) -> bytes:
    """A page in shades of gray, as PGM."""
    page = document[number]
    width, height = page.get_size()
    scale = min(DPI / 72, (MOST_PIXELS / max(width * height, 1.0)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    gray = bytes(bitmap.buffer)
    rows = b"".join(gray[row * bitmap.stride : row * bitmap.stride + bitmap.width] for row in range(bitmap.height))
    return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + rows


def _text(picture: bytes, languages: str, deadline: float) -> str:
    try:
        ended = subprocess.run(
            [COMMAND, "stdin", "stdout", "-l", languages],
            input=picture,
            capture_output=True,
            timeout=max(0.1, deadline - time.monotonic()),
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableDocument(
            "text recognition (OCR) took longer than allowed; split the file, or raise RAG_OCR__SECONDS"
        ) from None
    except OSError as error:
        raise UnreadableDocument(f"Tesseract cannot be started ({error.strerror}); install it again") from None
    if ended.returncode:
        line = next(iter(ended.stderr.decode(errors="replace").split("\n")), "")[:150]
        raise UnreadableDocument(
            f"Tesseract cannot recognise the text ({line}); install its data for RAG_OCR__LANGUAGES={languages}"
        )
    return ended.stdout.decode(errors="replace").replace("\f", "\n")
