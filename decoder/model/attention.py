"""Attention over several sequences in one pass, each with its own cache and tree mask.

All rows of a pass lie in one line, so linear layers run once over all of them without padding; only attention is
split by sequence. Registered with transformers' AttentionInterface, so the stock modelling files are used unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from decoder.model.kv_cache import KVCache

NAME = "rag_tree"
MOST = 96
"""Rows of the widest pass that may take products instead of the stock kernel."""
_SCORES = 1 << 24
"""Scores they may hold at once, float32."""
_BF16_PRODUCTS: bool = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


@dataclass(slots=True)
class Span:
    """Rows start..stop of a pass belong to one sequence.

    `mask` is bool [rows, cached + rows], True where a row sees a key; None where all rows see everything before them:
    one row, or a prefill into an empty cache.
    """

    cache: KVCache
    start: int
    stop: int
    mask: torch.Tensor | None


class PassCache:
    """What a model's layers see as `past_key_values` during one pass: the caches of all its sequences."""

    is_compileable = False

    def __init__(self, spans: list[Span], keep_queries: frozenset[int] = frozenset()) -> None:
        self.spans = spans
        self.keep_queries = keep_queries
        self.queries: dict[int, torch.Tensor] = {}
        """Layer -> [T, heads, head_dim], of the layers in `keep_queries`."""
        self.layer: list[tuple[torch.Tensor, torch.Tensor]] = []

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write this layer's rows, [1, kv_heads, T, head_dim], to the caches of their sequences."""
        self.layer = [
            span.cache.write(layer_idx, keys[:, :, span.start : span.stop], values[:, :, span.start : span.stop])
            for span in self.spans
        ]
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.spans[0].cache.length


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    pass_cache: PassCache | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention, one call a sequence.

    Args:
        query: [1, heads, T, head_dim], all rows of the pass; key and value are read from `pass_cache` instead.

    Returns:
        ([1, T, heads, head_dim], None).
    """
    if pass_cache is None:
        raise ValueError("this model is set up for rag-service's passes; run it through its TargetModel")
    layer: Any = module.layer_idx
    if layer in pass_cache.keep_queries:
        pass_cache.queries[layer] = query[0].transpose(0, 1)
    outputs = [
        _attend(query[:, :, span.start : span.stop], keys, values, span.mask, scaling)
        for span, (keys, values) in zip(pass_cache.spans, pass_cache.layer, strict=True)
    ]
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    return output.transpose(1, 2).contiguous(), None


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
) -> torch.Tensor:
    """[1, heads, n, d] against [1, kv_heads, S, d] -> [1, heads, n, d], without repeating keys and values."""
    _, heads, rows, dim = query.shape
    groups = heads // keys.shape[1]
    if mask is None and rows > 1:  # prefill into an empty cache
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, scale=scaling, enable_gqa=groups > 1)
    # The query heads of one key head become rows of one product: [1, kv_heads, groups * n, d].
    packed = query.reshape(1, keys.shape[1], groups * rows, dim)
    if mask is not None and _by_products(query, keys):
        return _products(packed[0], keys[0], values[0], mask, scaling or dim**-0.5).reshape(1, heads, rows, dim)
    if mask is not None and groups > 1:
        mask = mask.repeat(groups, 1)
    output = F.scaled_dot_product_attention(packed, keys, values, attn_mask=mask, scale=scaling)
    return output.reshape(1, heads, rows, dim)


def _by_products(query: torch.Tensor, keys: torch.Tensor) -> bool:
    """Whether two batched products beat the stock kernel: bf16 on a processor that multiplies it, a draft's few rows.

    The stock kernel works through such shapes at a fifth of that processor's speed; measured, products take 0.6 to 0.9
    of its time from 4 rows to 96, and more than it for the rows of a prompt.
    """
    _, heads, rows, _ = query.shape
    return (
        query.dtype is torch.bfloat16
        and query.device.type == "cpu"
        and _BF16_PRODUCTS
        and rows <= MOST
        and heads * rows * keys.shape[2] <= _SCORES
    )


def _products(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """[kv_heads, groups * n, d], rounded where the stock kernel rounds: scores float32, probabilities bf16.

    Torch could multiply the scores' factors as bf16, faster, but only under a setting of the whole process, and other
    threads embed documents meanwhile.

    Args:
        mask: bool [n, S]; a row sees all keys before the pass's own n.
    """
    rows = mask.shape[0]
    scores = torch.bmm(query.float(), keys.float().transpose(1, 2)).mul_(scaling)
    own = scores.view(keys.shape[0], -1, rows, scores.shape[-1])[..., -rows:]
    own.masked_fill_(~mask[:, -rows:], float("-inf"))
    return torch.bmm(torch.softmax(scores, -1).to(values.dtype), values)


AttentionInterface.register(NAME, tree_attention)
