"""Files of SDSAT adapters: `adapters.safetensors` and `config.json` in a folder.

Adapters that come with the package are in `adapters/<model>/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from decoder.errors import AdaptersError
from decoder.model.adapters import LINEARS, Adapters, linears_of
from decoder.model.fingerprint import describe
from decoder.model.shipped import choose_folder, mismatch
from decoder.model.target import TargetModel

FOLDER = Path(__file__).parent / "adapters"
WEIGHTS, CONFIG = "adapters.safetensors", "config.json"
FORMAT = "rag-sdsat-1"
_CPU = torch.device("cpu")


def fit_adapters(wanted: str | Path | None, target: TargetModel, model: str) -> Adapters | None:
    """The adapters for a target, on its device and in its dtype.

    Args:
        wanted: a folder, the name of shipped adapters, "off" for none, or None for this model's shipped adapters, if
            there are any.
        model: the target's name.

    Raises:
        AdaptersError: the adapters do not exist, are damaged, or were trained for another model.
    """

    def missing(names: str) -> AdaptersError:
        return AdaptersError(f"there are no adapters {str(wanted)!r}; give a folder with {CONFIG} and {WEIGHTS}{names}")

    folder = choose_folder(wanted, FOLDER, target, model, missing)
    return None if folder is None else load(folder, target, model)


def load(folder: Path, target: TargetModel, model: str) -> Adapters:
    """Read adapters for a target. Raises AdaptersError as `fit_adapters`."""
    config = _config(folder)
    if difference := mismatch(config["target"], describe(target, model)):
        raise AdaptersError(f"{folder}: {difference}; train adapters for this model with `rag train sdsat`")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        adapters = Adapters.of(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, KeyError) as error:
        raise AdaptersError(f"{folder / WEIGHTS} cannot be read ({error}); copy or train it again") from None
    _check_shapes(adapters, target.model, folder)
    return adapters.to(target.device, target.dtype)


def save(
    adapters: Adapters, folder: Path, target: dict[str, Any], dtype: torch.dtype = torch.float16, **more: Any
) -> Path:
    """Write weights and config; returns the folder.

    Args:
        target: the model they were trained for, `fingerprint.describe`.
        dtype: of the stored weights.
        more: further entries of config.json.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().contiguous() for name, tensor in adapters.to(_CPU, dtype).tensors().items()}
    temporary = folder / f".{WEIGHTS}"
    save_file(tensors, temporary, metadata={"format": "pt"})
    temporary.chmod(0o644)  # safetensors writes files that only their owner can read
    temporary.replace(folder / WEIGHTS)
    config = {
        "format": FORMAT,
        "masks": adapters.length,
        "rank": adapters.rank,
        "linears": [name for name in LINEARS if any(pair.endswith(name) for pair in adapters.pairs)],
        "coupler": 0 if adapters.conditioner is None else adapters.conditioner.hidden,
        "tokens": None if adapters.tokens is None else len(adapters.tokens),
        "parameters": sum(tensor.numel() for tensor in adapters.weights().values()),
        **more,
        "target": target,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise AdaptersError(f"{folder / CONFIG} cannot be read ({error}); give a folder of SDSAT adapters") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT or not isinstance(config.get("target"), dict):
        raise AdaptersError(f"{folder / CONFIG} does not describe SDSAT adapters ({FORMAT}); give a folder that does")
    return config


def _check_shapes(adapters: Adapters, model: Any, folder: Path) -> None:
    width = model.config.hidden_size
    if adapters.masks.ndim != 2 or adapters.masks.shape[1] != width:
        raise AdaptersError(f"{folder}: masks have shape {tuple(adapters.masks.shape)}, the model's width is {width}")
    layers = linears_of(model, sorted({name.rpartition(".")[2] for name in adapters.pairs} & set(LINEARS)))
    for name, (down, up) in adapters.pairs.items():
        layer = layers.get(name)
        if layer is None:
            raise AdaptersError(f"{folder}: the model has no linear layer {name}")
        if down.shape != (len(down), layer.in_features) or up.shape != (layer.out_features, len(down)):
            raise AdaptersError(
                f"{folder}: {name} has adapters of shape {tuple(down.shape)} and {tuple(up.shape)} for a layer of "
                f"{layer.in_features} to {layer.out_features}"
            )
    tokens = adapters.tokens
    if tokens is not None and not (0 <= int(tokens.min()) <= int(tokens.max()) < model.config.vocab_size):
        raise AdaptersError(f"{folder}: tokens outside the model's vocabulary of {model.config.vocab_size}")
    if adapters.conditioner is not None and adapters.conditioner.misfit(adapters.length, width):
        raise AdaptersError(f"{folder}: the conditioner's matrices do not fit {adapters.length} masks of width {width}")
