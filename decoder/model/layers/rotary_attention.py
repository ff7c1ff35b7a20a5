"""Rotary embeddings of an attention layer in one piece of machine code, in bfloat16 on x86 processors with AVX2.

Queries are rotated where they lie, and keys and values go straight to the cache, where the stock layer runs a dozen
operations; for a few rows, calling these takes longer than what they compute. The bits are the stock layer's. The code
(`rotary_code.py`) is made at the first use.
"""

from __future__ import annotations

import logging
from functools import cache
from types import MethodType
from typing import Any

import numpy as np
import torch

from decoder.model.attention import PassCache, Span
from decoder.model.kv_cache import KVCache
from decoder.model.linear.calls import Call
from decoder.model.linear.rounding import suits
from decoder.model.linear.run import Run
from decoder.model.paths.paths import Paths

log = logging.getLogger(__name__)

COLUMNS = 32
"""Columns of a head come in multiples of this."""
_ALONE = 1 << 16
"""Fewer numbers than this are computed on one thread: waking another takes longer."""
FORMS = frozenset({"LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention"})
"""Classes of transformers whose attention rotates queries and keys, those of Qwen3 behind norms, and nothing else. A
trial cannot tell: a bound that a layer sets to its numbers shows with large ones alone.
"""
_TRIAL_ROWS = 3
Turns = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, [1, T, dim]."""


def speed_up(model: Any) -> int:
    """Let the code rotate for a model's attention layers, if it is for them: of Llama's form, and each is tried.

    Their modules stay, and compute as before where attention does not go along paths, or a gradient is asked for.

    Returns:
        how many.
    """
    if model.device.type != "cpu" or model.dtype is not torch.bfloat16 or not available():
        return 0
    layers = [
        module
        for module in model.modules()
        if type(module).__name__ in FORMS and "forward" not in module.__dict__ and module.head_dim % COLUMNS == 0
    ]
    if not layers or not _compute_alike(model, layers):
        return 0
    for layer in layers:
        layer.forward = MethodType(_forward, layer)
    return len(layers)


def speeds_up(attention: Any) -> bool:
    """Whether the code rotates for a layer."""
    return getattr(attention.forward, "__func__", None) is _forward


@torch.no_grad()
def _compute_alike(model: Any, layers: list[Any]) -> bool:
    """Whether stock layers give what ours would, bit by bit, and keep the same keys and values."""
    number = max(layer.layer_idx for layer in layers) + 1
    for layer in layers:  # of these forms, but perhaps of another version
        dim, width = layer.head_dim, layer.q_proj.in_features
        rows = torch.linspace(-3.0, 3.0, _TRIAL_ROWS * width).sin().bfloat16().view(1, _TRIAL_ROWS, width)
        paths = [Paths.of(0, np.tri(_TRIAL_ROWS, dtype=np.bool_))]
        found = []
        try:
            turns = model.get_decoder().rotary_emb(rows, torch.arange(5, 5 + _TRIAL_ROWS)[None])
            for forward in (type(layer).forward, _forward):
                kept = KVCache(number, layer.k_proj.out_features // dim, dim, _TRIAL_ROWS, rows.dtype, rows.device)
                kept.reserve(_TRIAL_ROWS)
                passing = PassCache([Span(kept, 0, _TRIAL_ROWS, None, paths)])
                output, _ = forward(
                    layer,
                    hidden_states=rows,
                    position_embeddings=turns,
                    attention_mask=None,
                    past_key_values=passing,
                    pass_cache=passing,
                )
                found.append((output, *kept.pending_too(layer.layer_idx)))
            if not all(torch.equal(*pair) for pair in zip(*found, strict=True)):
                return False
        except (TypeError, ValueError, RuntimeError, AttributeError):  # another version's form
            return False
    return True


def _forward(
    layer: Any,
    hidden_states: torch.Tensor,
    position_embeddings: Turns | None = None,
    attention_mask: torch.Tensor | None = None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What an attention layer's `forward` becomes."""
    passing = past_key_values
    if position_embeddings is None or not fits(hidden_states, position_embeddings, passing, layer.head_dim):
        stock: tuple[torch.Tensor, None] = type(layer).forward(
            layer,
            hidden_states=hidden_states,
            position_embeddings=position_embeddings,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **options,
        )
        return stock
    dim, (_, count, _) = layer.head_dim, hidden_states.shape
    queries, keys, values = (project(hidden_states) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
    if hasattr(layer, "q_norm"):
        queries = layer.q_norm(queries.view(count, -1, dim)).view(1, count, -1)
        keys = layer.k_norm(keys.view(count, -1, dim)).view(1, count, -1)
    for span in passing.spans:
        rotate(span, layer.layer_idx, (queries[0], keys[0], values[0]), position_embeddings, dim)
    passing.layer = [span.cache.pending_too(layer.layer_idx) for span in passing.spans]
    attended = passing.attend(layer.layer_idx, queries.view(1, count, -1, dim).transpose(1, 2), layer.scaling)
    return layer.o_proj(attended.view(1, count, -1)), None


def fits(rows: torch.Tensor, turns: Turns, passing: Any, dim: int) -> bool:
    """Whether the code can rotate in a pass, whose attention it is, for rows [1, T, D]."""
    gradient = rows.requires_grad and torch.is_grad_enabled()
    along = isinstance(passing, PassCache) and passing.along_paths
    numbers = all(one.dtype is torch.bfloat16 and one.device.type == "cpu" for one in (rows, *turns))
    shapes = rows.dim() == 3 and rows.shape[0] == 1 and all(one.shape == (*rows.shape[:2], dim) for one in turns)
    return along and not gradient and numbers and shapes


def rotate(
    span: Span, layer: int, projected: tuple[torch.Tensor, torch.Tensor, torch.Tensor], turns: Turns, dim: int
) -> None:
    """Rotate the queries of a sequence's rows in place, and write its rotated keys and its values to its cache.

    Args:
        span: the rows of the sequence.
        layer: index of the decoder layer.
        projected: queries [T, heads * dim], keys and values [T, kv_heads * dim], bfloat16, of all rows.
        turns: of all rows.
        dim: columns of a head.
    """
    call(span, layer, projected, turns, dim).run()


def call(
    span: Span, layer: int, projected: tuple[torch.Tensor, torch.Tensor, torch.Tensor], turns: Turns, dim: int
) -> Call:
    """That of `rotate`."""
    (queries, keys, values), (cosines, sines), first = projected, turns, span.start
    kept_keys, kept_values = span.cache.pending_too(layer)
    cosines, sines = cosines.contiguous(), sines.contiguous()
    rows, offset = span.stop - first, span.cache.length * dim * 2
    threads = 1 if rows * queries.shape[1] < _ALONE else min(torch.get_num_threads(), rows)
    return Call(
        code(),
        [
            queries.data_ptr() + first * queries.stride(0) * 2, queries.stride(0), queries.shape[1] // dim,
            keys.data_ptr() + first * keys.stride(0) * 2, keys.stride(0),
            values.data_ptr() + first * values.stride(0) * 2, values.stride(0), keys.shape[1] // dim,
            cosines.data_ptr() + first * dim * 2, sines.data_ptr() + first * dim * 2, rows, dim,
            kept_keys.data_ptr() + offset, kept_values.data_ptr() + offset, kept_keys.stride(1), 0,
        ],
        threads,
        (queries, keys, values, cosines, sines, kept_keys, kept_values),
    )  # fmt: skip


def available() -> bool:
    """Whether the code can be made here. What it computes is tried with each model."""
    try:
        return suits() and code() is not None
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as problem:
        log.info("queries and keys are rotated by torch: no machine code for it (%s)", problem)
        return False


@cache
def code() -> Run:
    """The function of `rotary_code.py`.

    Raises:
        ImportError, TypeError: llvmlite is missing, or too old.
        OSError, AttributeError: torch has no GNU OpenMP.
        RuntimeError: LLVM cannot make the code for this processor.
    """
    from decoder.model.layers.rotary_code import program

    return program().compiled("avx2")["rotate"]
