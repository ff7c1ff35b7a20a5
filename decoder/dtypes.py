"""The number format that suits a device: half the memory and up to four times the speed where it multiplies bfloat16.

Imports no torch for a processor.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

EngineExact = Literal["auto", "default", "bitwise"]
"""What an engine's drafts have in common with plain decoding: the logits up to rounding (`default`), every bit of them
(`bitwise`), or every bit where that costs nothing (`auto`)."""
INT8 = "int8"
"""Weights of eight bits with one scale per output, activations in bfloat16; on a CPU alone (`model/linear/`)."""
INT4 = "int4"
"""The integers of four and six bits that a model's GGUF file has, as they are, activations in bfloat16; on an x86 CPU
alone (`model/linear/blocks/`)."""
INT4_FLAGS = frozenset({"avx2", "fma", "f16c"})
AUTO = "auto"
"""As `dtype`: the format that `preferred` names."""
BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""What /proc/cpuinfo calls the instructions, on x86 and on ARM."""
FLOAT16_FLAGS = frozenset({"amx_fp16", "avx512_fp16"})
MATRIX_FLAGS = frozenset({"amx_bf16"})
"""Those that multiply whole tiles of bfloat16; only they make small embedding models faster."""


def preferred(device: str, processor: Path = Path("/proc/cpuinfo")) -> str:
    """bfloat16 where the device multiplies it, else float32; on an older GPU float16.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        processor: describes the processor, as Linux does; without it a processor gets float32.
    """
    if device.partition(":")[0] != "cpu":
        import torch

        return "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
    return "bfloat16" if flags(processor) & BFLOAT16_FLAGS else "float32"


def problem(dtype: str, device: str, processor: Path = Path("/proc/cpuinfo")) -> str | None:
    """Why a device cannot run a model of this number format, and what to do; None if it can.

    Args:
        dtype, device: by name.
        processor: describes the processor, as Linux does.
    """
    if dtype not in {INT8, INT4}:
        return None
    if device != "cpu":
        return (
            f"the number format {dtype} is for the device cpu, and the device is {device}; "
            "choose bfloat16 or float16 there, or the device cpu"
        )
    if dtype == INT4 and not flags(processor) >= INT4_FLAGS:
        return "the number format int4 needs an x86 processor with AVX2; choose int8, bfloat16 or float32"
    if dtype == INT4 and find_spec("llvmlite") is None:
        return "the number format int4 needs llvmlite: pip install -e '.[native]', or choose int8 or bfloat16"
    return None


def resolved(dtype: str, device: str) -> str:
    """A format by its name; `auto` becomes the preferred one."""
    return preferred(device) if dtype == AUTO else dtype


def device_here(device: str) -> str:
    """A device by its name; `auto` becomes the GPU if there is one, else `cpu`."""
    if device != AUTO:
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def resolved_for_embedding(dtype: str, device: str, processor: Path = Path("/proc/cpuinfo")) -> str:
    """As `resolved`, for an embedding model: bfloat16 only on a GPU with it, and on processors with AMX."""
    if dtype != AUTO:
        return dtype
    if device.partition(":")[0] != "cpu":
        return "bfloat16" if preferred(device) == "bfloat16" else "float32"
    return "bfloat16" if flags(processor) & MATRIX_FLAGS else "float32"


def flags(processor: Path) -> frozenset[str]:
    """The instruction sets of a processor; empty if they are unknown."""
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(values.split())
    return frozenset()
