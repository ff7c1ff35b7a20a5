"""Checks that a model folder on disk is complete and safe to load.

Knows file names and config keys; loads no weights. Only safetensors are read and no code from a folder is ever run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from decoder.errors import DecoderError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
INDEX = "model.safetensors.index.json"

HUB_PATTERNS = (
    "*.safetensors",
    INDEX,
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
"""Files to download from a hub repository: weights as safetensors, tokenizer and configuration; never code."""


class ModelError(DecoderError, ValueError):
    """A model cannot be found or used; the message says what to do."""


class UnsafeModel(ModelError):
    """The folder would need unpickling or running code that came with the model."""


class IncompleteModel(ModelError):
    """The folder lacks a file that the model needs."""


def check_folder(folder: Path) -> Path:
    """Return the folder if its model is usable.

    Raises:
        IncompleteModel: no config.json, no weights, or shards missing.
        UnsafeModel: only pickled weights, or a config that asks for its own code (auto_map).
    """
    if not (folder / "config.json").is_file():
        raise IncompleteModel(f"{folder} has no config.json; point at the folder that holds the model's files")
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in _json(folder / name):
            raise UnsafeModel(
                f"{folder / name} needs code that comes with the model (auto_map); such code is never run. "
                "Choose a model of an architecture that is part of transformers"
            )
    if (folder / INDEX).is_file():
        shards = set(_json(folder / INDEX).get("weight_map", {}).values())
        missing = sorted(name for name in shards if not (folder / str(name)).is_file())
        if missing or not shards:
            raise IncompleteModel(f"{folder} lacks {', '.join(missing) or 'every shard'}; download the model again")
    elif not any(folder.glob("*.safetensors")):
        _raise_no_weights(folder)
    return folder


def _raise_no_weights(folder: Path) -> None:
    if any(any(folder.glob(pattern)) for pattern in PICKLES):
        raise UnsafeModel(
            f"{folder} has only pickled weights; only safetensors are read. "
            "Save the model again with save_pretrained(..., safe_serialization=True)"
        )
    if any(folder.glob("*.gguf")):
        raise IncompleteModel(
            f"{folder} has a GGUF file but no safetensors; convert it once with "
            "`python -m decoder.weights.conversion FILE.gguf FOLDER` and point at that folder"
        )
    raise IncompleteModel(f"{folder} has no *.safetensors; download the model's weights into it")


def _json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise IncompleteModel(f"{path} is not JSON ({error}); download the model again") from error
    if not isinstance(value, dict):
        raise IncompleteModel(f"{path} is not a JSON object; download the model again")
    return value
