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

from decoder.model.kv_cache import KVCache
from decoder.model.paths import path_attention
from decoder.model.paths.paths import Paths

NAME = "rag_tree"


@dataclass(slots=True)
class Span:
    """Rows [start, stop) of a pass, which belong to one sequence.

    `mask` is bool [rows, cached + rows], True if a row sees a key. It is None if every row sees all keys up to its
    own: for a single row, or a prefill into an empty cache. Attention goes along `paths` instead if there are any; they
    are those of all rows.
    """

    cache: KVCache
    start: int
    stop: int
    mask: torch.Tensor | None
    paths: Sequence[Paths] = ()


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
        self.along_paths: bool = all(span.paths for span in spans)
        """Whether attention goes along paths, of all sequences."""
        self.queries: dict[int, torch.Tensor] = {}
        """Layer -> [T, heads, head_dim], for the layers in `keep_queries`."""
        self.layer: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Keys and values of the running layer, one pair per sequence."""
        self.prepared: dict[Any, Any] = {}
        """What layers prepare once for all of them."""

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
        _, heads, rows, dim = query.shape
        output = query.new_empty(rows, heads, dim)
        for span, (keys, values) in zip(self.spans, self.layer, strict=True):
            of_span, written = query[:, :, span.start : span.stop], output[span.start : span.stop]
            for piece in span.paths:
                rows_of, into = of_span[0, :, piece.first : piece.past], written[piece.first : piece.past]
                path_attention.attend(rows_of, keys[0], values[0], piece, scaling or dim**-0.5, into)
            if not span.paths:
                written.copy_(_attend(of_span, keys, values, span.mask, scaling)[0].transpose(0, 1))
        return output[None]


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
    if mask is not None and groups > 1:
        mask = mask.repeat(groups, 1)
    output = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
    return output.reshape(1, heads, rows, dim)


AttentionInterface.register(NAME, tree_attention)
