"""Files of a multipart body, written to a folder as they come.

Starlette's own reader keeps the first megabyte of every file in memory and the rest in the system's temporary folder,
and refuses a whole form for one long file name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio.to_thread
from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from rag_service.errors import BadRequest

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MULTIPART = "multipart/form-data"
HEADER_BYTES = 64 * 1024
"""Most bytes of one header of a part: a file name may be long, and is then refused alone."""
FIELDS = 100
"""Most parts beside the files; they are read and dropped."""


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
    _, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadRequest("The body is no form of files (its Content-Type names no boundary); correct it.")
    reader = _Reader(folder, most + 1)
    try:
        parser = MultipartParser(boundary, reader.callbacks(), max_header_size=HEADER_BYTES)
        async for piece in request.stream():
            if piece:
                await anyio.to_thread.run_sync(parser.write, piece)
        parser.finalize()
    except MultipartParseError as error:
        raise BadRequest(f"The body is no form of files ({str(error).rstrip('.')}); correct it.") from None
    finally:
        await anyio.to_thread.run_sync(reader.close)
    if not reader.ended:
        raise BadRequest("The body ends in the middle of a file, or is no form of files; send it again, whole.")
    return reader.uploads


class _Reader:
    """What the parser finds: one part after the other, each a head and data."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most
        self._fields = 0
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._file: BinaryIO | None = None
        self.uploads: list[Upload] = []
        self.ended = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_ended,
            "on_headers_finished": self._headers_ended,
            "on_part_data": self._data,
            "on_part_end": self.close,
            "on_end": self._all_ended,
        }

    def _part(self) -> None:
        self._disposition = b""

    def _header_ended(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_ended(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"filename")
        if name is None:
            self._fields += 1
            if self._fields > FIELDS:
                raise BadRequest(f"The form has more than {FIELDS} fields beside the files; send the files alone.")
            return
        if len(self.uploads) == self._most:
            raise BadRequest("The form has too many files; send them in several requests.", "too_many_documents")
        path = self._folder / str(len(self.uploads))
        self._file = path.open("wb")
        self.uploads.append(Upload(name.decode("utf-8", "surrogateescape"), path))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])

    def _all_ended(self) -> None:
        self.ended = True

    def close(self) -> None:
        """Close the file of the part, also after an error. Raises OSError where the last bytes cannot be written."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
