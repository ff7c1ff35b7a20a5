"""The reading process: files in, text out, one at a time, under limits.

`file_reader` starts it as `python -m retriever.parsing.parse_file MEMORY CPU_SECONDS INPUT_BYTES TEXT_CHARS
OCR_LANGUAGES OCR_SECONDS`. A request is one JSON line on stdin, `{"path", "name"}`. An answer is 8 bytes of length
(big-endian) and a JSON object on stdout: the fields of `LoadedDocument`, or `{"failure": "unsupported"|"unreadable",
"reason", "last"}`; before it comes `{"recognising": true}` if the pages of a scan have to be recognised, which takes
longer. An empty answer comes first, when the process is ready. The process ends when stdin does, or after an answer
with `last`.

Imports the standard library and the parsers only: no torch, no numpy, no database.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from retriever.errors import LoadError, UnsupportedFormat
from retriever.parsing import ocr
from retriever.parsing.formats import load_file
from retriever.parsing.ocr import Recogniser

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument


def main(arguments: list[str]) -> None:
    memory, cpu_seconds, input_bytes, text_chars = (int(argument) for argument in arguments[:4])
    languages, ocr_seconds = arguments[4], float(arguments[5])
    requests, answers = _private_pipes()
    if memory:
        _lower(resource.RLIMIT_AS, memory)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)

    def send(answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        answers.write(struct.pack(">Q", len(body)) + body)
        answers.flush()

    def recognised(document: PdfDocument, pages: Sequence[int]) -> Mapping[int, str]:
        send({"recognising": True})
        return ocr.recognised(document, pages, languages, ocr_seconds)

    recogniser = recognised if ocr_seconds > 0 and ocr.installed() else None
    answers.write(struct.pack(">Q", 0))
    answers.flush()
    for line in requests:
        if cpu_seconds:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            _lower(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + cpu_seconds + 1, soft_only=True)
        request = json.loads(line)
        try:
            answer = _answer(Path(request["path"]), request["name"], input_bytes, text_chars, recogniser)
        except MemoryError:
            reason = "reading the file takes more memory than allowed; simplify or split the file"
            answer = {"failure": "unreadable", "reason": reason, "last": True}
        send(answer)
        if answer.get("last"):
            return


def _answer(path: Path, name: str, input_bytes: int, text_chars: int, recogniser: Recogniser | None) -> dict[str, Any]:
    try:
        loaded = load_file(path, name, max_bytes=input_bytes, recogniser=recogniser)
    except LoadError as error:
        kind = "unsupported" if isinstance(error, UnsupportedFormat) else "unreadable"
        return {"failure": kind, "reason": error.reason}
    except MemoryError:
        raise
    except Exception as error:  # a parser's own bug is this file's failure, not the batch's
        what = f"{type(error).__name__}: {error}"[:200]
        reason = f"the file cannot be read ({what}); it is probably damaged: save or export it again"
        return {"failure": "unreadable", "reason": reason}
    if len(loaded.text) > text_chars:
        size = f"{len(loaded.text):,} characters of text, more than the {text_chars:,} allowed"
        return {"failure": "unreadable", "reason": f"the file has {size}; split it"}
    return asdict(loaded)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout for the protocol alone: what a parser prints goes nowhere."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return requests, answers


def _lower(limit: int, value: int, *, soft_only: bool = False) -> None:
    """Set `limit`, never above what it is already."""
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, hard if soft_only else value))


if __name__ == "__main__":
    main(sys.argv[1:])
