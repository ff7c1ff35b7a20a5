"""Which folders and hub ids are taken as models, and what a refusal says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from decoder.models import (
    NAMED,
    IncompleteModel,
    ModelError,
    PullFailed,
    UnknownModel,
    UnsafeModel,
    available,
    pull,
    resolve,
)


def model_folder(folder: Path, *weights: str, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
    for name in weights:
        (folder / name).write_bytes(b"\0" * 16)
    return folder


def test_a_folder_with_safetensors_is_taken(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m", "model.safetensors", "pytorch_model.bin")
    assert resolve(str(folder), tmp_path) == folder
    assert resolve(folder, tmp_path) == folder
    assert pull(str(folder), tmp_path) == folder


@pytest.mark.parametrize(
    ("weights", "error", "says"),
    [
        (["pytorch_model.bin"], UnsafeModel, "only safetensors"),
        (["model.pt"], UnsafeModel, "only safetensors"),
        (["m.gguf"], IncompleteModel, "python -m decoder.weights.conversion"),
        ([], IncompleteModel, "no \\*.safetensors"),
    ],
)
def test_other_weights_are_refused(tmp_path: Path, weights: list[str], error: type[ModelError], says: str) -> None:
    with pytest.raises(error, match=says):
        resolve(str(model_folder(tmp_path / "m", *weights)), tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_remote_code_is_refused(tmp_path: Path, name: str) -> None:
    folder = model_folder(tmp_path / "m", "model.safetensors")
    (folder / name).write_text(json.dumps({"auto_map": {"AutoModelForCausalLM": "evil.Model"}}))
    with pytest.raises(UnsafeModel, match="never run"):
        resolve(str(folder), tmp_path)


def test_missing_shards_and_broken_config_are_named(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m", "a.safetensors")
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(IncompleteModel, match=r"b\.safetensors"):
        resolve(str(folder), tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(IncompleteModel, match="not JSON"):
        resolve(str(folder), tmp_path)
    with pytest.raises(IncompleteModel, match=r"no config\.json"):
        resolve(str(tmp_path), tmp_path)
    with pytest.raises(ModelError, match="is a file"):
        resolve(str(folder / "a.safetensors"), tmp_path)


@pytest.mark.parametrize("name", ["no-such-model", "", "../nowhere", "/no/such/folder", "a/b/c", "-x/y"])
def test_unknown_names_list_the_known_ones(tmp_path: Path, name: str) -> None:
    for find in (resolve, pull):
        with pytest.raises(UnknownModel) as caught:
            find(name, tmp_path)
        assert all(known in str(caught.value) for known in NAMED)


def test_every_named_model_is_listed_unpulled(tmp_path: Path) -> None:
    assert [(status.model.name, status.pulled) for status in available(tmp_path / "none")] == [
        ("smollm2-135m", False),
        ("qwen2.5-coder-0.5b", False),
        ("qwen2.5-coder-1.5b", False),
        ("all-minilm-l6-v2", False),
    ]


class Hub:
    """Stands for snapshot_download: whole repositories appear in the cache on a download."""

    def __init__(self, folder: Path, weights: str = "model.safetensors") -> None:
        self.folder = folder
        self.weights = weights
        self.calls: list[dict[str, Any]] = []

    def __call__(self, repository: str, **options: Any) -> str:
        self.calls.append({"repository": repository, **options})
        if options["local_files_only"]:
            if not self.folder.exists():
                raise LocalEntryNotFoundError("nothing cached")
        elif repository == "owner/away":
            raise OSError("no route to host")
        else:
            model_folder(self.folder, self.weights)
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    fake = Hub(tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake)
    return fake


def test_a_hub_id_is_downloaded_once_without_code_or_pickles(tmp_path: Path, hub: Hub) -> None:
    assert resolve("owner/name@v1.0", tmp_path) == hub.folder
    assert [call["local_files_only"] for call in hub.calls] == [True, False]
    assert (hub.calls[-1]["repository"], hub.calls[-1]["revision"]) == ("owner/name", "v1.0")
    patterns = hub.calls[-1]["allow_patterns"]
    assert "*.safetensors" in patterns
    assert not [pattern for pattern in patterns if pattern.endswith((".py", ".bin", ".pt", "*"))]

    assert resolve("owner/name@v1.0", tmp_path) == hub.folder
    assert [call["local_files_only"] for call in hub.calls[2:]] == [True]


def test_a_download_cut_short_is_taken_up_again(tmp_path: Path, hub: Hub) -> None:
    model_folder(hub.folder)
    assert pull("owner/name", tmp_path) == hub.folder
    assert (hub.folder / "model.safetensors").is_file()


def test_a_hub_model_with_pickles_only_is_refused(tmp_path: Path, hub: Hub) -> None:
    hub.weights = "pytorch_model.bin"
    with pytest.raises(UnsafeModel):
        resolve("owner/name", tmp_path)


def test_an_unreachable_hub_says_what_to_do(tmp_path: Path, hub: Hub) -> None:
    with pytest.raises(PullFailed, match="no route to host"):
        resolve("owner/away", tmp_path)
