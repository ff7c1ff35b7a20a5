"""Weights as the bytes of a GGUF file's blocks, for tests: rounded in the plainest way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from decoder import dtypes
from decoder.model.linear.blocks.file_blocks import BLOCK, BYTES, GROUP
from decoder.model.linear.quantise import BlocksOf
from decoder.weights.gguf_blocks import BlockFormat

needs_int4 = pytest.mark.skipif(
    bool(dtypes.problem("int4", "cpu")), reason="the processor has no AVX2, or llvmlite is missing"
)


def file_bytes(weight: torch.Tensor, kind: BlockFormat) -> torch.Tensor:
    """Weights float32 [out, in] as uint8 [out, bytes of a row]."""
    groups = weight.reshape(len(weight), -1, BLOCK // GROUP[kind], GROUP[kind])
    return (_q4 if kind == "Q4_K" else _q6)(groups).reshape(len(weight), -1)


def random_bytes(out: int, blocks: int, kind: BlockFormat, seed: int = 1) -> torch.Tensor:
    """uint8 [out, bytes of a row]: every byte is possible, and d and dmin are small numbers of both signs."""
    source = torch.Generator().manual_seed(seed)
    data = torch.randint(256, (out, blocks, BYTES[kind]), generator=source, dtype=torch.uint8)
    floats = torch.randn(out, blocks, 2, generator=source).mul_(0.01).half().view(torch.uint8)
    if kind == "Q4_K":
        data[..., :4] = floats
    else:
        data[..., -2:] = floats[..., :2]
    return data.view(out, -1)


def blocks_of(model: Any) -> BlocksOf:
    """What `quantise` takes: a model's weights as blocks where their columns fit, in each format by turns."""
    names = [name for name, weight in model.named_parameters() if weight.dim() == 2 and weight.shape[1] % BLOCK == 0]
    kinds: list[BlockFormat] = ["Q4_K", "Q6_K"]
    found = {name: kinds[number % 2] for number, name in enumerate(names)}
    weights = {name: model.get_parameter(name).detach().float() for name in names}
    return lambda name: (file_bytes(weights[name], found[name]), found[name]) if name in found else None


def _q4(groups: torch.Tensor) -> torch.Tensor:
    """[out, blocks, 8, 32]."""
    least = groups.amin(-1).neg().clamp_min(0.0)
    scale = (groups.amax(-1) + least).clamp_min(1e-6) / 15
    d, dmin = (value.amax(-1, keepdim=True).div(63).half().float() for value in (scale, least))
    scales, minima = (scale / d).round().clamp(1, 63), (least / dmin.clamp_min(1e-9)).round().clamp(0, 63)
    integers = ((groups + (dmin * minima)[..., None]) / (d * scales)[..., None]).round().clamp(0, 15).to(torch.uint8)
    scales, minima = scales.to(torch.uint8), minima.to(torch.uint8)
    first = scales[..., :4] | ((scales[..., 4:] >> 4) << 6)
    second = minima[..., :4] | ((minima[..., 4:] >> 4) << 6)
    third = (scales[..., 4:] & 15) | ((minima[..., 4:] & 15) << 4)
    halves = integers[..., 0::2, :] | (integers[..., 1::2, :] << 4)
    floats = torch.cat((d, dmin), dim=-1).half().view(torch.uint8)
    return torch.cat((floats, first, second, third, halves.flatten(-2)), dim=-1)


def _q6(groups: torch.Tensor) -> torch.Tensor:
    """[out, blocks, 16, 16]."""
    scale = groups.abs().amax(-1).clamp_min(1e-6) / 31
    d = scale.amax(-1, keepdim=True).div(127).half().float()
    scales = (scale / d).round().clamp(1, 127)
    integers = (groups / (d * scales)[..., None]).round().add(32).clamp(0, 63).to(torch.uint8)
    eighths = integers.reshape(*groups.shape[:2], 2, 4, 32)
    low, high = eighths & 15, eighths >> 4
    lower = torch.stack((low[..., 0, :] | (low[..., 2, :] << 4), low[..., 1, :] | (low[..., 3, :] << 4)), dim=-2)
    upper = high[..., 0, :] | (high[..., 1, :] << 2) | (high[..., 2, :] << 4) | (high[..., 3, :] << 6)
    parts = (lower.flatten(-3), upper.flatten(-2), scales.to(torch.int8).view(torch.uint8), d.half().view(torch.uint8))
    return torch.cat(parts, dim=-1)
