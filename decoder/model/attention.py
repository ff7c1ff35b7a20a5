"""Attention over several sequences in one pass, each with its own cache and tree mask.

The rows of all sequences are concatenated, so linear layers run once over all of them without padding; only attention
is split by sequence. It is registered with transformers' AttentionInterface, so the stock modelling files stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from decoder.model import bitwise
from decoder.model.kv_cache import KVCache

NAME = "rag_tree"
MAX_ROWS = 96
"""Most rows of a pass whose attention is computed by batched products instead of the stock kernel."""
_MAX_SCORES = 1 << 24
"""Most float32 scores that the products may hold in memory."""
_BF16_PRODUCTS: bool = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


@dataclass(slots=True)
class Span:
    """Rows [start, stop) of a pass, which belong to one sequence.

    `mask` is bool [rows, cached + rows], True if a row sees a key. It is None if every row sees all keys up to its
    own: for a single row, or a prefill into an empty cache.
    """

    cache: KVCache
    start: int
    stop: int
    mask: torch.Tensor | None
    blocks: Sequence[bitwise.Block] = ()
    """Those of its keys, in passes whose bits shall not depend on their other rows."""


class PassCache:
    """The caches of all sequences of one pass, as the `past_key_values` of a model's layers.

    Args:
        spans: the rows of each sequence.
        keep_queries: layers whose queries are kept.
    """

    is_compileable = False

    def __init__(self, spans: list[Span], keep_queries: frozenset[int] = frozenset()) -> None:
        self.spans = spans
        self.keep_queries = keep_queries
        self.queries: dict[int, torch.Tensor] = {}
        """Layer -> [T, heads, head_dim], for the layers in `keep_queries`."""
        self.layer: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Keys and values of the running layer, one pair per sequence."""

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one layer's rows, [1, kv_heads, T, head_dim], to the caches of their sequences; return them."""
        self.layer = [
            span.cache.write(layer_idx, keys[:, :, span.start : span.stop], values[:, :, span.start : span.stop])
            for span in self.spans
        ]
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Cached tokens of the first sequence; transformers calls it."""
        return self.spans[0].cache.length

    def attend(self, layer: int, query: torch.Tensor, scaling: float | None) -> torch.Tensor:
        """Attention of one layer, one call per sequence: query [1, heads, T, head_dim] -> [1, T, heads, head_dim]."""
        if layer in self.keep_queries:
            self.queries[layer] = query[0].transpose(0, 1)
        outputs = [
            bitwise.attend(query[:, :, span.start : span.stop], keys, values, span.mask, span.blocks, scaling)
            if span.blocks
            else _attend(query[:, :, span.start : span.stop], keys, values, span.mask, scaling)
            for span, (keys, values) in zip(self.spans, self.layer, strict=True)
        ]
        output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
        return output.transpose(1, 2).contiguous()


class Attends(Protocol):
    """What computes the attention of a pass: a `PassCache`, or the static passes of `graphed_passes.py`."""

    def attend(self, layer: int, query: torch.Tensor, scaling: float | None) -> torch.Tensor: ...


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    pass_cache: Attends | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention of the rows of all sequences.

    Args:
        module: the attention layer.
        query: [1, heads, T, head_dim], all rows of the pass.
        key, value, attention_mask: not used; keys, values and masks come from `pass_cache`.
        scaling: factor of query-key products; head_dim ** -0.5 by default.
        pass_cache: the caches and masks of the pass.

    Returns:
        ([1, T, heads, head_dim], None).

    Raises:
        ValueError: the model runs outside a TargetModel.
    """
    if pass_cache is None:
        raise ValueError("this model belongs to a TargetModel; run it through TargetModel.forward_tree")
    layer: Any = module.layer_idx
    return pass_cache.attend(layer, query, scaling), None


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
) -> torch.Tensor:
    """Attention of [1, heads, n, d] to [1, kv_heads, S, d] -> [1, heads, n, d]; keys and values are not repeated."""
    _, heads, rows, dim = query.shape
    groups = heads // keys.shape[1]
    if mask is None and rows > 1:  # prefill into an empty cache
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, scale=scaling, enable_gqa=groups > 1)
    # The query heads that share a key head become rows of one product: [1, kv_heads, groups * n, d].
    grouped = query.reshape(1, keys.shape[1], groups * rows, dim)
    if mask is not None and _products_are_faster(query, keys):
        return _products(grouped[0], keys[0], values[0], mask, scaling or dim**-0.5).reshape(1, heads, rows, dim)
    if mask is not None and groups > 1:
        mask = mask.repeat(groups, 1)
    output = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
    return output.reshape(1, heads, rows, dim)


def _products_are_faster(query: torch.Tensor, keys: torch.Tensor) -> bool:
    """Whether two batched products beat the stock kernel: for a draft's few rows in bf16, on a CPU that multiplies it.

    The stock kernel reaches a fifth of such a processor's speed on these shapes. Products take 0.6 to 0.9 of its time
    from 4 to 96 rows, and more than its time for the rows of a prompt.
    """
    _, heads, rows, _ = query.shape
    return (
        query.dtype is torch.bfloat16
        and query.device.type == "cpu"
        and _BF16_PRODUCTS
        and rows <= MAX_ROWS
        and heads * rows * keys.shape[2] <= _MAX_SCORES
    )


def _products(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Attention by two batched products, rounded like the stock kernel: float32 scores, bf16 probabilities.

    Torch could multiply the scores' factors as bf16, which is faster, but only by a setting of the whole process, and
    other threads embed documents at the same time.

    Args:
        query: [kv_heads, groups * n, d].
        keys, values: [kv_heads, S, d].
        mask: bool [n, S]; a row sees all keys before the pass's own n.

    Returns:
        [kv_heads, groups * n, d].
    """
    rows = mask.shape[0]
    scores = torch.bmm(query.float(), keys.float().transpose(1, 2)).mul_(scaling)
    own = scores.view(keys.shape[0], -1, rows, scores.shape[-1])[..., -rows:]
    own.masked_fill_(~mask[:, -rows:], float("-inf"))
    return torch.bmm(torch.softmax(scores, -1).to(values.dtype), values)


AttentionInterface.register(NAME, tree_attention)
