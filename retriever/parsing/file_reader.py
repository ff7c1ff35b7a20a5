"""Reads untrusted files in a child process with limits on time, processor time and memory.

Knows the child's protocol (`parse_file`) and why a child died; knows no file format. A file that crashes or hangs the
child is one failure: the next file gets a fresh child.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from retriever.errors import LoadError, RetrieverError, UnreadableDocument, UnsupportedFormat
from retriever.types import LoadedDocument

START_SECONDS = 60.0
"""Longest wait for the reading process to be ready."""

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_INHERITED_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TESSDATA_PREFIX",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on reading one file. 0 turns the memory or processor limit off."""

    seconds: float = 30.0
    """Wall-clock time."""
    cpu_seconds: int = 20
    memory_bytes: int = 2 * 1024**3
    """Address space of the reading process."""
    input_bytes: int = 100_000_000
    text_chars: int = 20_000_000
    ocr_languages: str = "eng"
    """Languages of scans, as Tesseract names them: `eng+nld`."""
    ocr_seconds: float = 300.0
    """Wall-clock time of the text recognition of one file, beside `seconds`; 0 turns text recognition off."""


class FileReader:
    """Reads files in a child process, one at a time. Use it as a context manager, from one thread."""

    def __init__(self, limits: ReadLimits | None = None) -> None:
        self.limits = limits or ReadLimits()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: Path, name: str | None = None) -> LoadedDocument:
        """The file as text. Raises UnsupportedFormat or UnreadableDocument; the reader stays usable after either."""
        child = self._started()
        try:
            answer = self._exchange(child, {"path": str(path.absolute()), "name": name or path.name})
        except TimeoutError:
            self._kill()
            limit = f"{self.limits.seconds:g} seconds"
            raise UnreadableDocument(f"reading took longer than {limit}; simplify or split the file") from None
        except (EOFError, BrokenPipeError):
            raise UnreadableDocument(self._cause_of_death(child)) from None
        except BaseException:
            self._kill()
            raise
        if answer.get("last"):
            self._kill()
        failure = answer.get("failure")
        if failure:
            kind: type[LoadError] = UnsupportedFormat if failure == "unsupported" else UnreadableDocument
            raise kind(answer["reason"])
        navigation = tuple((start, end) for start, end in answer["navigation"])
        return LoadedDocument(**{**answer, "pages": tuple(answer["pages"]), "navigation": navigation})

    def close(self) -> None:
        """End the child process. The reader stays usable."""
        self._kill()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self._kill()
        if self._child is None:
            limits = self.limits
            numbers = (limits.memory_bytes, limits.cpu_seconds, limits.input_bytes, limits.text_chars)
            ocr = (limits.ocr_languages, str(limits.ocr_seconds))
            environment = {name: os.environ[name] for name in _INHERITED_ENVIRONMENT if name in os.environ}
            environment["PYTHONPATH"] = str(_PACKAGE_ROOT)
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "retriever.parsing.parse_file", *map(str, numbers), *ocr],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
            assert self._child.stdout is not None
            try:
                _receive(self._child.stdout.fileno(), time.monotonic() + START_SECONDS)
            except (EOFError, TimeoutError):
                self._kill()
                raise RetrieverError(
                    "the process that reads files does not start; check that its memory limit "
                    f"({limits.memory_bytes / 1e6:.0f} MB) leaves room for Python itself"
                ) from None
        return self._child

    def _exchange(self, child: subprocess.Popen[bytes], request: dict[str, str]) -> dict[str, Any]:
        assert child.stdin is not None
        assert child.stdout is not None
        deadline = time.monotonic() + self.limits.seconds
        child.stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(_receive(child.stdout.fileno(), deadline))
        if answer.get("recognising"):
            deadline = time.monotonic() + self.limits.ocr_seconds + self.limits.seconds
            answer = json.loads(_receive(child.stdout.fileno(), deadline))
        return answer

    def _cause_of_death(self, child: subprocess.Popen[bytes]) -> str:
        code = child.wait()
        self._kill()
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "reading took more processor time or memory than allowed; simplify or split the file"
        if code < 0:
            name = signal.Signals(-code).name
            return f"the file crashed its reader ({name}); it is probably damaged: save or export it again"
        return f"the file ended its reader (exit code {code}); it is probably damaged: save or export it again"

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # and the text recognition that it may run
            child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _receive(descriptor: int, deadline: float) -> bytes:
    """One length-prefixed answer. Raises TimeoutError at the deadline, EOFError if the child ended."""

    def exactly(count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            part = os.read(descriptor, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        (length,) = struct.unpack(">Q", exactly(8))
        return exactly(length)
