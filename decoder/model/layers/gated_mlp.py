"""The gate of an MLP in one piece of machine code, in bfloat16 on x86 processors with AVX2: SiLU of its one half, by
the other.

The stock layers run two operations, which together take a twentieth of a pass over 64 rows in int8.
Rounded where they round. What a row gives depends on no other row. The code (`gate_code.py`) is made at the first use.
"""

from __future__ import annotations

import logging
from functools import cache
from types import MethodType
from typing import Any

import torch
from transformers.activations import SiLUActivation

from decoder.model.linear.calls import Call
from decoder.model.linear.run import Run
from decoder.model.paths.path_attention import suits

log = logging.getLogger(__name__)

COLUMNS = 16
"""Columns come in multiples of this."""
_ALONE = 1 << 14
"""Fewer numbers than this are computed on one thread: waking another takes longer."""
FORMS = frozenset({"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP"})
"""Classes of transformers whose MLPs compute down(SiLU(gate) * up) and nothing else. A trial cannot tell: a bound that
a layer sets to its numbers shows with large ones alone.
"""


def speed_up(model: Any) -> int:
    """Let the code compute the gates of a model's MLPs, if it is for them: of Llama's form, and each is tried.

    Their modules stay, and compute as before where a gradient is asked for.

    Returns:
        how many.
    """
    if model.device.type != "cpu" or model.dtype is not torch.bfloat16 or not available():
        return 0
    mlps = [
        module
        for module in model.modules()
        if type(module).__name__ in FORMS
        and "forward" not in module.__dict__
        and isinstance(module.act_fn, (torch.nn.SiLU, SiLUActivation))
        and module.gate_proj.out_features % COLUMNS == 0
    ]
    if not mlps or not all(_computes_alike(mlp) for mlp in mlps):
        return 0
    for mlp in mlps:
        mlp.forward = MethodType(_forward, mlp)
    return len(mlps)


def speeds_up(mlp: Any) -> bool:
    """Whether the code computes an MLP's gate."""
    return getattr(mlp.forward, "__func__", None) is _forward


@torch.no_grad()
def _computes_alike(mlp: Any) -> bool:
    """Whether a stock layer gives what ours would, some last bits aside."""
    columns = mlp.gate_proj.in_features
    rows = torch.linspace(-3.0, 3.0, columns).sin().bfloat16()[None]
    try:
        stock, ours = mlp(rows).float(), _forward(mlp, rows).float()
    except (TypeError, ValueError, RuntimeError, AttributeError):  # another version's form
        return False
    return stock.shape == ours.shape and bool((stock - ours).norm() <= 1e-2 * stock.norm())


def _forward(mlp: Any, rows: torch.Tensor) -> torch.Tensor:
    """What an MLP's `forward` becomes."""
    fits = rows.dtype is torch.bfloat16 and rows.device.type == "cpu"
    if not fits or (rows.requires_grad and torch.is_grad_enabled()):
        stock: torch.Tensor = type(mlp).forward(mlp, rows)
        return stock
    output: torch.Tensor = mlp.down_proj(gated(mlp.gate_proj(rows), mlp.up_proj(rows)))
    return output


def gated(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """SiLU of the gate, by `up`: bfloat16 [..., columns] of one form -> the same."""
    if gate.stride() != up.stride() or gate.stride(-1) != 1 or not _evenly(gate):
        gate, up = gate.contiguous(), up.contiguous()
    output = torch.empty(gate.shape, dtype=gate.dtype)
    call(gate, up, output).run()
    return output


def call(gate: torch.Tensor, up: torch.Tensor, output: torch.Tensor) -> Call:
    """That of the machine code: `gated` of two whose rows lie evenly and equally far apart; the output is
    contiguous."""
    columns, numbers = gate.shape[-1], gate.numel()
    stride = columns if gate.dim() == 1 else gate.stride(-2)
    threads = 1 if numbers < _ALONE else min(torch.get_num_threads(), numbers // columns)
    fields = [gate.data_ptr(), up.data_ptr(), stride, columns, numbers // columns, output.data_ptr(), 0]
    return Call(code(), fields, threads, (gate, up, output))


def _evenly(rows: torch.Tensor) -> bool:
    """Whether all rows are as far apart as the last two dimensions' are."""
    return rows.dim() < 3 or rows.shape[:-2].numel() == 1


def reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """As `gated`, as the stock layers do it."""
    return torch.nn.functional.silu(gate) * up


@cache
def available() -> bool:
    """Whether the code can be made here, and gives the reference's numbers, the last bit aside."""
    try:
        return suits() and _right()
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("gates are computed by torch: no machine code for them (%s)", problem)
        return False


def _right() -> bool:
    gate, up = torch.linspace(-90.0, 90.0, 10 * 96).view(2, 5, 96).bfloat16().unbind()
    return torch.allclose(gated(gate, up), reference(gate, up), rtol=2**-6, atol=1e-30)


@cache
def code() -> Run:
    """The function of `gate_code.py`.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.layers.gate_code import program

    return program().compiled("avx2")["gate"]
