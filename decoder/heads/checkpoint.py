"""Checkpoints of EAGLE heads, in the layout that the authors publish (github.com/SafeAILab/EAGLE).

A checkpoint is a folder with `config.json` and `model.safetensors` or `pytorch_model.bin`. The config is a Llama config
of one layer; `bias` (default true) is for `fc`, `qkv_bias` for queries, keys and values. The tensors are:

* EAGLE, EAGLE-2: `fc.*`, `layers.0.self_attn.{q,k,v,o}_proj.*`, `layers.0.mlp.{gate,up,down}_proj.weight`,
  `layers.0.post_attention_layernorm.weight`, often a copy of the target's `embed_tokens.weight`.
* EAGLE-3: `fc.weight`, `midlayer.*` (with `hidden_norm` and `input_layernorm`), `norm.weight`, `lm_head.weight`, and
  if `draft_vocab_size` is smaller than `vocab_size`: `d2t` [draft_vocab_size], the difference between the target's id
  and the draft id. `t2d` is ignored.

Heads trained here have the first layout with `d2t`, which selects rows of the target's output matrix, and without
embeddings. Their weights are in `head.safetensors`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from decoder.errors import EagleHeadError
from decoder.heads.head import EagleHead

SAFE_FILES = ("head.safetensors", "model.safetensors")
PICKLE_FILE = "pytorch_model.bin"
_WRITTEN = (
    "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "max_position_embeddings", "rms_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip
_NOT_READ = ("t2d", "rotary_emb.inv_freq")


def load(folder: Path, *, allow_pickle: bool = False) -> EagleHead:
    """Read a checkpoint.

    Args:
        folder: with config.json and the weights.
        allow_pickle: also read `pytorch_model.bin`, weights only, if there are no safetensors.

    Raises:
        EagleHeadError: files or tensors are missing, have the wrong shape, or are of an unsupported kind.
    """
    config = _read_config(folder)
    tensors = {name.removeprefix("model."): tensor for name, tensor in _read_tensors(folder, allow_pickle).items()}
    eagle3 = any(name.startswith("midlayer.") for name in tensors)
    if not eagle3 and not any(name.startswith("layers.0.") for name in tensors):
        raise EagleHeadError(f"{folder} holds no EAGLE head: neither layers.0.* nor midlayer.* is in it")
    embeddings = tensors.pop("embed_tokens.weight", None)
    tokens = _tokens(folder, config, tensors.pop("d2t", None), eagle3)
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(_NOT_READ)}
    try:
        head = EagleHead(
            _family(config, tensors, eagle3),
            eagle3=eagle3,
            fc_bias="fc.bias" in tensors,
            target_size=config.get("target_hidden_size"),
            tokens=tokens,
            name=str(folder),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EagleHeadError(f"{folder}/config.json does not describe a head: {error}") from None
    _fill(head, tensors, folder)
    if embeddings is not None:
        expected = (config["vocab_size"], config.get("target_hidden_size") or config["hidden_size"])
        if eagle3:
            expected = (config["vocab_size"], config["hidden_size"])
        if tuple(embeddings.shape) != expected:
            raise EagleHeadError(
                f"{folder}: embed_tokens.weight has shape {tuple(embeddings.shape)}, config.json says {expected}"
            )
        head.embeddings = embeddings
    return head


def save(
    head: EagleHead, folder: Path, *, dtype: torch.dtype = torch.float16, target: dict[str, Any] | None = None
) -> Path:
    """Write `head.safetensors` and `config.json` in the published layout, without embeddings; returns the folder.

    Args:
        dtype: of the stored weights.
        target: the model it was trained for, `fingerprint.describe`.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().to("cpu", dtype).contiguous()
        for name, tensor in head.state_dict().items()
        if not name.startswith("rotary.")
    }
    tokens = head.tokens
    if tokens is not None:
        tensors["d2t"] = tokens.cpu() - torch.arange(len(tokens))
    rope = head.config.rope_parameters
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": head.config.model_type,
        **{name: getattr(head.config, name) for name in _WRITTEN if getattr(head.config, name, None) is not None},
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None if rope["rope_type"] == "default" else dict(rope),
        "bias": head.fc.bias is not None,
        "qkv_bias": head.layer.self_attn.q_proj.bias is not None,
        "draft_vocab_size": head.config.vocab_size if tokens is None else len(tokens),
        "num_hidden_layers": 1,
        **({"target": target} if target else {}),
    }
    temporary = folder / ".head.safetensors"
    save_file(tensors, temporary, metadata={"format": "pt"})
    temporary.replace(folder / SAFE_FILES[0])
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise EagleHeadError(f"{folder} has no config.json; point at the folder of an EAGLE head")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EagleHeadError(f"{path} is not JSON: {error}") from None
    needed = ("hidden_size", "vocab_size", "num_attention_heads", "intermediate_size")
    missing = [name for name in needed if not isinstance(config, dict) or not isinstance(config.get(name), int)]
    if missing:
        raise EagleHeadError(f"{path} lacks {', '.join(missing)}")
    checked: dict[str, Any] = config
    return checked


def _read_tensors(folder: Path, allow_pickle: bool) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for name in SAFE_FILES:
        if (folder / name).is_file():
            try:
                tensors: dict[str, torch.Tensor] = load_file(folder / name)
            except SafetensorError as error:
                raise EagleHeadError(f"{folder / name} is damaged: {error}; copy it here again") from None
            return tensors
    path = folder / PICKLE_FILE
    if not path.is_file():
        raise EagleHeadError(f"{folder} has no weights; it needs {SAFE_FILES[1]} or {PICKLE_FILE}")
    if not allow_pickle:
        raise EagleHeadError(
            f"{folder} has its weights in {PICKLE_FILE} only; convert them to safetensors, or allow the file with "
            "allow_pickle=True (RAG_EAGLE_ALLOW_PICKLE): it is read for its weights alone"
        )
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise EagleHeadError(f"{path} cannot be read for its weights alone: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in loaded.values()):
        raise EagleHeadError(f"{path} holds something else than named tensors")
    return dict(loaded)


def _tokens(folder: Path, config: dict[str, Any], d2t: torch.Tensor | None, eagle3: bool) -> torch.Tensor | None:
    """The target's id of each draft id, ascending; None if all tokens can be drafted."""
    size = config.get("draft_vocab_size", config["vocab_size"])
    if d2t is None or (eagle3 and size == config["vocab_size"]):
        if size != config["vocab_size"]:
            raise EagleHeadError(
                f"{folder} has a draft vocabulary of {size} tokens, but no d2t that maps them to the target's"
            )
        return None
    if d2t.dim() != 1 or len(d2t) != size:
        raise EagleHeadError(f"{folder}: d2t has shape {tuple(d2t.shape)}, config.json says draft_vocab_size {size}")
    tokens = d2t.long() + torch.arange(len(d2t))
    if len(tokens) == 0 or int(tokens.min()) < 0 or int(tokens.max()) >= config["vocab_size"]:
        raise EagleHeadError(f"{folder}: d2t names tokens outside the vocabulary of {config['vocab_size']}")
    if int(tokens.sort().values.diff().eq(0).sum()):
        raise EagleHeadError(f"{folder}: d2t names a token twice")
    return tokens


def _family(config: dict[str, Any], tensors: Mapping[str, torch.Tensor], eagle3: bool) -> Any:
    """The layer's config. Biases in the checkpoint decide its class, not config.json."""
    from transformers import LlamaConfig, Qwen2Config

    names = {
        "architectures", "model_type", "layer_types", "use_sliding_window", "sliding_window", "max_window_layers",
        "torch_dtype", "dtype", "attention_bias", "quantization_config", "transformers_version",
    }  # fmt: skip
    plain = {name: value for name, value in config.items() if name not in names} | {"num_hidden_layers": 1}
    layer = "midlayer" if eagle3 else "layers.0"
    biased = f"{layer}.self_attn.q_proj.bias" in tensors
    if biased and eagle3:
        raise EagleHeadError("EAGLE-3 heads with biases in their attention are not supported")
    return (Qwen2Config if biased else LlamaConfig)(**plain)


def _fill(head: EagleHead, tensors: dict[str, torch.Tensor], folder: Path) -> None:
    expected = {name: tensor for name, tensor in head.state_dict().items() if not name.startswith("rotary.")}
    missing = sorted(set(expected) - set(tensors))
    if missing:
        raise EagleHeadError(f"{folder} lacks {', '.join(missing)}")
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise EagleHeadError(f"{folder} holds tensors that no EAGLE head of this kind has: {', '.join(unknown)}")
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape:
            raise EagleHeadError(
                f"{folder}: {name} has shape {tuple(tensors[name].shape)}, config.json says {tuple(tensor.shape)}"
            )
    head.load_state_dict({name: tensors[name].to(expected[name].dtype) for name in expected}, strict=False)
