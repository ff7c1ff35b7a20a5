"""The weights of a GGUF file: dequantizes them in blocks, measures what rounding loses, writes safetensors.

Memory holds one tensor and one output file at a time, whatever the model's size. Knows tensors and their names; knows
no tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.errors import UnsupportedModel
from decoder.weights.model_folder import INDEX
from decoder.weights.wheels import Progress

if TYPE_CHECKING:
    import torch

BLOCK_WEIGHTS = 1 << 18
"""Weights that are dequantized together: few enough for the processor's cache."""
SHARD_BYTES = 1 << 30
"""Bytes of one output file, unless a single tensor has more."""
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
REORDERED = {"llama": ("attn_q.weight", "attn_k.weight")}
"""By architecture: tensors whose rows the file has in another order (rotary pairs interleaved)."""
AS_THEY_ARE = ("qwen2", "qwen3")
"""Architectures whose tensors the file has as transformers does."""


@dataclass
class Rounding:
    """The largest differences between dequantized weights and stored ones.

    Attributes:
        absolute: the largest absolute difference.
        relative: the largest difference over the absolute value of the weight.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def add(self, weight: torch.Tensor, stored: torch.Tensor) -> None:
        """Take in a block."""
        import torch

        difference = stored.to(torch.float32, copy=True).sub_(weight)
        self.absolute = max(self.absolute, _largest(difference))
        self.relative = max(self.relative, _largest(difference.div_(weight).nan_to_num_(0.0)))


@dataclass(frozen=True)
class Plan:
    """Which tensor of the file becomes which weight of the model.

    Attributes:
        model: the model, without memory for weights.
        dtype: the stored dtype.
        tensors: weight -> tensor of the file.
        heads: weight -> attention heads, for weights whose rows the file has in another order.
    """

    model: Any
    dtype: torch.dtype
    tensors: dict[str, Any]
    heads: dict[str, int]

    def shards(self) -> list[list[str]]:
        """The weights of each output file."""
        shards: list[list[str]] = [[]]
        room = SHARD_BYTES
        for name, tensor in self.tensors.items():
            size = int(tensor.n_elements) * self.dtype.itemsize
            if shards[-1] and size > room:
                shards.append([])
                room = SHARD_BYTES
            shards[-1].append(name)
            room -= size
        return shards


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread inside the block: on blocks this small, more threads mostly wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def exact_dtype(reader: Any, progress: Progress) -> str:
    """The smallest of bfloat16, float16 and float32 that holds every weight exactly."""
    import torch

    candidates = ["bfloat16", "float16"]
    for number, tensor in enumerate(reader.tensors):
        progress("measure", number, len(reader.tensors))
        for _, weight in _blocks(tensor):
            candidates = [
                name for name in candidates if torch.equal(weight.to(getattr(torch, name)).to(torch.float32), weight)
            ]
            if not candidates:
                return "float32"
    return candidates[0]


def measure(reader: Any, dtype: torch.dtype, progress: Progress) -> Rounding:
    """What storing all weights in this dtype loses."""
    rounding = Rounding()
    for number, tensor in enumerate(reader.tensors):
        progress("measure", number, len(reader.tensors))
        for _, weight in _blocks(tensor):
            rounding.add(weight, weight.to(dtype))
    return rounding


def plan_weights(gguf_path: Path, reader: Any, dtype: torch.dtype, *, tied: bool) -> Plan | None:
    """The plan for this file; None if its tensors are not, one by one, the weights of the model.

    Args:
        gguf_path: the file.
        reader: its reader.
        dtype: the dtype to store in.
        tied: whether to store the output embedding as the input embedding, too.
    """
    from transformers import AutoConfig

    if not _architecture(reader):
        return None
    try:
        config = AutoConfig.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    except (ValueError, NotImplementedError) as error:
        raise UnsupportedModel(f"transformers cannot read {gguf_path.name}: {error}") from error
    config.tie_word_embeddings = tied or config.tie_word_embeddings
    return plan_for(config, reader, dtype)


def plan_for(config: Any, reader: Any, dtype: torch.dtype) -> Plan | None:
    """As `plan_weights`, for a model of a known configuration."""
    import torch
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
    from transformers import AutoModelForCausalLM

    architecture = _architecture(reader)
    kinds = [kind for kind, name in MODEL_ARCH_NAMES.items() if name == architecture]
    if not kinds:
        return None
    reordered = REORDERED.get(architecture, ())
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    names = get_tensor_name_map(kinds[0], config.num_hidden_layers)
    found = {tensor.name: tensor for tensor in reader.tensors}
    if config.tie_word_embeddings and OUTPUT in found:
        found[EMBEDDING] = found.pop(OUTPUT)
    plan = Plan(model, dtype, {}, {})
    for name, weight in model.named_parameters():
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        tensor = found.pop(theirs, None)
        if tensor is None or [int(size) for size in reversed(tensor.shape)] != list(weight.shape):
            return None
        plan.tensors[name] = tensor
        if theirs.endswith(reordered):
            queries = theirs.endswith("attn_q.weight")
            plan.heads[name] = config.num_attention_heads if queries else config.num_key_value_heads
    return None if found else plan


def _architecture(reader: Any) -> str:
    """GGUF's name of the file's architecture; empty if its tensors' order is not known."""
    name = str(reader.fields["general.architecture"].contents()) if reader.fields else ""
    return name if name in REORDERED or name in AS_THEY_ARE else ""


def write_weights(plan: Plan, folder: Path, progress: Progress) -> Rounding:
    """Write the model's weights as safetensors, with an index if there is more than one file."""
    from safetensors.torch import save_file

    rounding, shards, index = Rounding(), plan.shards(), {}
    number = 0
    for position, names in enumerate(shards, 1):
        file = "model.safetensors" if len(shards) == 1 else f"model-{position:05}-of-{len(shards):05}.safetensors"
        weights = {}
        for name in names:
            progress("convert", number, len(plan.tensors))
            number += 1
            weights[name] = _stored(plan.tensors[name], plan.dtype, plan.heads.get(name), rounding)
            index[name] = file
        save_file(weights, folder / file, metadata={"format": "pt"})
    if len(shards) > 1:
        size = sum(int(tensor.n_elements) for tensor in plan.tensors.values()) * plan.dtype.itemsize
        content = {"metadata": {"total_size": size}, "weight_map": index}
        (folder / INDEX).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    progress("convert", len(plan.tensors), len(plan.tensors))
    return rounding


def _stored(tensor: Any, dtype: torch.dtype, heads: int | None, rounding: Rounding) -> torch.Tensor:
    """A tensor of the file as it is stored."""
    import torch

    shape = [int(size) for size in reversed(tensor.shape)]
    stored = torch.empty(shape, dtype=dtype)
    for row, weight in _blocks(tensor):
        block = stored[row : row + len(weight)]
        block.copy_(weight)
        rounding.add(weight, block)
    return stored if heads is None else in_halves(stored, heads)


def in_halves(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a file in transformers' order: pairs of rotary dimensions are neighbours there, and halves of a head
    here."""
    pairs = rows.view(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape).contiguous()


def _blocks(tensor: Any) -> Iterator[tuple[int, torch.Tensor]]:
    """The dequantized float32 weights of a tensor, some rows at a time, with the number of the first row."""
    import torch
    from gguf import dequantize

    rows = tensor.data
    step = len(rows) if rows.ndim == 1 else max(1, BLOCK_WEIGHTS // max(1, int(tensor.n_elements) // len(rows)))
    for row in range(0, len(rows), step):
        block = dequantize(rows[row : row + step], tensor.tensor_type)
        yield row, torch.from_numpy(block if block.flags.writeable else block.copy())


def _largest(values: torch.Tensor) -> float:
    low, high = values.aminmax()
    return max(float(high), -float(low))
