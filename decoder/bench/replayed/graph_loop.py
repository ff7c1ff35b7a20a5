"""A minimal hand-written decode loop: one row a pass, one CUDA graph, torch's own attention over a fixed buffer.

It is what plain decoding can reach with torch alone, without drafts, batches, sessions or sampling.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

NAME = "rag_graph_loop"


class _FixedCache:
    """Keys and values of one sequence in buffers of `room` rows; `place` says where the next row goes."""

    is_compileable = False

    def __init__(self, model: Any, room: int) -> None:
        config = model.config
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, 2, 1, config.num_key_value_heads, room, dim)
        self._buffer = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.place = torch.zeros(1, dtype=torch.long, device=model.device)
        self.columns = torch.arange(room, device=model.device)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        for part, rows in ((0, keys), (1, values)):
            self._buffer[layer_idx, part].index_copy_(2, self.place, rows)
        return self._buffer[layer_idx, 0], self._buffer[layer_idx, 1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


def _attention(
    module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: Any = None, pass_cache: Any = None, **_: Any
) -> tuple[torch.Tensor, None]:
    seen = (pass_cache.columns <= pass_cache.place)[None, None, None]
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scaling, enable_gqa=True)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attention)


@torch.inference_mode()
def tokens_per_second(model: Any, cached: int = 512, tokens: int = 128) -> float:
    """The speed of greedy decoding after `cached` rows of a model on a GPU."""
    stock = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    cache = _FixedCache(model, cached + tokens + 8)
    ids = torch.zeros(1, 1, dtype=torch.long, device=model.device)

    def step() -> None:
        output = model(
            input_ids=ids, position_ids=cache.place[None], past_key_values=cache, pass_cache=cache, use_cache=True
        )
        ids.copy_(output.logits[:, -1].argmax(-1, keepdim=True))
        cache.place.add_(1)

    cache.place.fill_(cached)
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    cache.place.fill_(cached)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(tokens):
        graph.replay()
        ids.tolist()  # the answer goes out token by token
    elapsed = time.perf_counter() - started
    model.set_attn_implementation(stock)
    return tokens / elapsed
