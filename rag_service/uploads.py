"""Files of a multipart body, written to a folder as they come.

Starlette's own parser keeps the first megabyte of every file in memory and the rest in the system's temporary folder.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from rag_service.errors import BadRequest

MULTIPART = "multipart/form-data"
_FIELDS = 100
"""Most fields beside the files; they are read and dropped."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as its client names it, and where it is."""

    name: str
    path: Path


async def uploads_to(folder: Path, request: Request, most: int) -> list[Upload]:
    """Write the files of a body into `folder`, one more than `most` of them at the most.

    Raises:
        BadRequest: the body is no multipart form.
        OSError: they cannot be written; what was written stays for the caller to delete.
    """
    parser = _Parser(folder, request, most + 1)
    try:
        form = await parser.parse()
        await form.close()
    except MultiPartException as error:
        raise BadRequest(f"The body is no form of files ({error.message.rstrip('.')}); correct it.") from None
    finally:
        parser.close()
    if parser.uploads and not parser.ended:
        raise BadRequest("The body ends in the middle of a file; send it again, whole.")
    return parser.uploads


class _Parser(MultiPartParser):
    def __init__(self, folder: Path, request: Request, most: int) -> None:
        super().__init__(request.headers, request.stream(), max_files=most, max_fields=_FIELDS, max_part_size=1 << 16)
        self._folder = folder
        self._opened = ExitStack()
        self.uploads: list[Upload] = []
        self.ended = False

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        part = self._current_part
        if part.file is None:
            return
        path = self._folder / str(len(self.uploads))
        part.file.file.close()
        # Written to by UploadFile in a thread, as a file on disk.
        file: Any = self._opened.enter_context(path.open("wb"))
        part.file = UploadFile(file=file, size=0, filename=part.file.filename, headers=part.file.headers)
        self.uploads.append(Upload(part.file.filename or "", path))

    def on_end(self) -> None:
        self.ended = True

    def close(self) -> None:
        """Close what is open, also after an error. Raises OSError where the last bytes cannot be written."""
        self._opened.close()
