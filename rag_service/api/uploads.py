"""Writes the files of a multipart body to a folder as they arrive, and keeps the field that describes them.

Starlette's own reader keeps the first megabyte of every file in memory and the rest in the system's temporary folder,
and rejects a whole form because of one long file name.
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
"""Most bytes of one header of a part. High, so that a long file name fails its own file only."""
FIELDS = 100
"""Most parts that are not files; all but `DETAILS` are read and ignored."""
DETAILS = "documents"
"""The field that says more of the files, as JSON."""
DETAILS_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Upload:
    """A file with its client's name for it and its path on disk."""

    name: str
    path: Path


async def save_uploads(folder: Path, request: Request, most: int) -> tuple[list[Upload], bytes | None]:
    """Write the files of a body into `folder`, at most `most + 1` files. Returns them, and the field `DETAILS` if sent.

    Raises:
        BadRequest: the body is not a multipart form, has more files, or a field `DETAILS` above `DETAILS_BYTES`.
        OSError: a file cannot be written. The caller deletes the folder.
    """
    _, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadRequest("The body is not a form with files: its Content-Type has no boundary. Correct it.")
    reader = _Reader(folder, most + 1)
    try:
        parser = MultipartParser(boundary, reader.callbacks(), max_header_size=HEADER_BYTES)
        async for chunk in request.stream():
            if chunk:
                await anyio.to_thread.run_sync(parser.write, chunk)
        parser.finalize()
    except MultipartParseError as error:
        raise BadRequest(f"The body is not a form with files ({str(error).rstrip('.')}). Correct it.") from None
    finally:
        await anyio.to_thread.run_sync(reader.close)
    if not reader.ended:
        raise BadRequest("The body ends in the middle of a file, or is not a form with files. Send it again.")
    return reader.uploads, None if reader.details is None else bytes(reader.details)


class _Reader:
    """The parser's callbacks: parts one after the other, each with headers and data."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most
        self._fields = 0
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._file: BinaryIO | None = None
        self._in_details = False
        self.details: bytearray | None = None
        self.uploads: list[Upload] = []
        self.ended = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part_began,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_ended,
            "on_headers_finished": self._headers_ended,
            "on_part_data": self._data,
            "on_part_end": self.close,
            "on_end": self._all_ended,
        }

    def _part_began(self) -> None:
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
                raise BadRequest(f"The form has more than {FIELDS} fields that are not files. Send only the files.")
            self._in_details = options.get(b"name") == DETAILS.encode()
            if self._in_details:
                if self.details is not None:
                    raise BadRequest(f"The form has the field `{DETAILS}` twice. Send one list for all files.")
                self.details = bytearray()
            return
        if len(self.uploads) == self._most:
            raise BadRequest("The form has too many files. Send them in several requests.", "too_many_documents")
        path = self._folder / str(len(self.uploads))
        self._file = path.open("wb")
        self.uploads.append(Upload(name.decode("utf-8", "surrogateescape"), path))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
        elif self._in_details and self.details is not None:
            if len(self.details) + end - start > DETAILS_BYTES:
                raise BadRequest(f"The field `{DETAILS}` is larger than {DETAILS_BYTES} bytes. Send fewer files.")
            self.details += data[start:end]

    def _all_ended(self) -> None:
        self.ended = True

    def close(self) -> None:
        """Close the current file, also after an error. Raises OSError if its last bytes cannot be written."""
        file, self._file = self._file, None
        self._in_details = False
        if file is not None:
            file.close()
