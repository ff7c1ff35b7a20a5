"""Graphed passes: decode passes in a few fixed shapes, captured as CUDA graphs and replayed.

A pass over a small model launches hundreds of kernels, which takes the processor longer than they take the GPU. A graph
launches them at once. Passes are padded to the next shape; all that differs between passes of a shape is in tables
that each pass brings (`tree_attention.Tables`), so caches stay where they are. Prompts, and passes with adaptive rows,
run without a graph.

On a CPU the same passes run without capture, so that their shapes can be tested where there is no GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.pass_parts import TreePass

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Rows of the shapes. Longer passes run in several parts, one after the other."""
TILE_ROWS = 16
"""Rows of one sequence that share a reading of its keys, in passes with drafts."""
Shape = tuple[int, int, bool, RequiredOutputs]
"""(rows, sequences, whether there are drafts, required outputs)."""


class GraphedPasses:
    """The captured passes of one model.

    Args:
        model: the stock model, with `decoder.model.attention`; on a GPU, or, to test shapes, on a CPU.
        heads, kv_heads, head_dim: its sizes.
    """

    def __init__(self, model: Any, heads: int, kv_heads: int, head_dim: int) -> None:
        self._model, self._sizes = model, (heads, kv_heads, head_dim)
        self._shapes: dict[Shape, _StaticPass] = {}
        self._pool: Any = None
        """Memory that the graphs share: only one of them runs at a time."""

    def __len__(self) -> int:
        """The number of shapes so far."""
        return len(self._shapes)

    def groups(self, batch: Sequence[TreePass]) -> list[list[TreePass]]:
        """The parts of a pass in passes that have a shape, in order; none if a part is too long for one."""
        groups: list[list[TreePass]] = []
        room = 0
        for part in batch:
            if part.rows > ROWS[-1]:
                return []
            if part.rows > room:
                groups.append([])
                room = ROWS[-1]
            groups[-1].append(part)
            room -= part.rows
        return groups

    def run(self, batch: Sequence[TreePass]) -> ForwardOutputs:
        """Run a pass that has a shape, without adaptive rows. The outputs are of all its rows, in order, and stay."""
        rows = sum(part.rows for part in batch)
        required = RequiredOutputs()
        for part in batch:
            part.cache.reserve(part.rows)
            required |= part.required_outputs
        sequences = 1 << (len(batch) - 1).bit_length()
        shape = ROWS[bisect_left(ROWS, rows)], sequences, rows > len(batch), required
        static = self._shapes.get(shape)
        if static is None:
            static = self._shapes[shape] = _StaticPass(self._model, self._sizes, shape)
            static.fill(batch)
            static.capture(self._pool)
            self._pool = self._pool or static.pool
        static.fill(batch)
        static.replay()
        return static.outputs(rows)


class _StaticPass:
    """A pass of one shape."""

    def __init__(self, model: Any, sizes: tuple[int, int, int], shape: Shape) -> None:
        from decoder.model.graphs.tree_attention import Tables, TreeAttention

        self._model, self._device, self._head_dim = model, model.device, sizes[2]
        self._rows, self._sequences, drafts, self._required = shape
        self._tile_rows = TILE_ROWS if drafts else 1
        # Every sequence has at most one tile that is not full.
        tiles = self._rows // self._tile_rows + min(self._sequences, self._rows) if drafts else self._rows
        self._tables = Tables(self._rows, self._sequences, tiles, self._device)
        self._attention = TreeAttention(self._tables, self._tile_rows, *sizes)
        self._host = {name: part.numpy() for name, part in self._tables.parts(self._tables.host).items()}
        on_device = self._tables.parts(self._tables.device)
        self._ids, self._positions = on_device["ids"][None], on_device["positions"][None]
        self._graph: Any = None
        self._queries: dict[int, torch.Tensor] = {}
        self._hidden: dict[int, torch.Tensor] = {}
        self._features: torch.Tensor

    @property
    def pool(self) -> Any:
        """The graph's memory; None without a graph."""
        return None if self._graph is None else self._graph.pool()

    def fill(self, batch: Sequence[TreePass]) -> None:
        """Write the tables of a pass whose caches have room, and start their transfer."""
        host = self._host
        host["row_sequence"].fill(-1)
        host["tile_sequence"].fill(-1)
        start = tile = 0
        for number, part in enumerate(batch):
            rows, base = part.rows, part.cache.length
            stop = start + rows
            host["ids"][start:stop] = [part.root, *part.tree.tokens]
            host["positions"][start:stop] = [base, *(base + depth for depth in part.tree.depths)]
            host["row_sequence"][start:stop] = number
            host["row_number"][start:stop] = np.arange(rows)
            host["visible"][start:stop, :rows] = part.tree.mask()
            for name, value in (
                ("first_row", start),
                ("rows_of", rows),
                ("capacity", part.cache.capacity),
                ("length", base),
                ("address", part.cache.address),
            ):
                host[name][number] = value
            tiles = -(-rows // self._tile_rows)
            host["tile_sequence"][tile : tile + tiles] = number
            host["tile_row"][tile : tile + tiles] = np.arange(0, rows, self._tile_rows)
            start, tile = stop, tile + tiles
        self._tables.send()

    def capture(self, pool: Any) -> None:
        """Run the pass to warm up, and capture it. The first pass of a shape compiles kernels, which takes seconds."""
        if self._device.type != "cuda":
            return
        stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._run()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self._run()
        self._graph = graph

    def replay(self) -> None:
        """Run the pass."""
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()

    def outputs(self, rows: int) -> ForwardOutputs:
        """Copies of the outputs of the first `rows` rows, all that are not padding."""
        features = self._features[:rows]
        return ForwardOutputs(
            self._model.get_output_embeddings()(features),
            {layer: states[:rows].clone() for layer, states in self._hidden.items()},
            {layer: queries[:rows].clone() for layer, queries in self._queries.items()},
            features.clone() if self._required.features else None,
        )

    def _run(self) -> None:
        from decoder.model.graphs.rms_norm import fused_norms

        decoder = self._model.get_decoder()
        kept = sorted(self._required.hidden | self._required.last)
        with fused_norms(self._model), ExitStack() as handles:
            for layer in kept:
                handles.enter_context(decoder.layers[layer].register_forward_hook(self._keeping(layer)))
            output = decoder(
                input_ids=self._ids.long(),
                position_ids=self._positions.long(),
                past_key_values=self,
                pass_cache=self,
                use_cache=True,
            )
        self._features = output.last_hidden_state[0]

    def _keeping(self, layer: int) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            self._hidden[layer] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    # What a model's layers call of a cache, and the attention of `attention.Attends`.

    is_compileable = False

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one layer's rows, [1, kv_heads, rows, head_dim], to the caches; return them."""
        self._attention.write(layer_idx, keys, values)
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Not used: positions are given."""
        return 0

    def attend(self, layer: int, query: torch.Tensor, scaling: float | None) -> torch.Tensor:
        """Attention of one layer: query [1, heads, rows, head_dim] -> [1, rows, heads, head_dim]."""
        if layer in self._required.queries:
            self._queries[layer] = query[0].transpose(0, 1)
        return self._attention.attend(layer, query, scaling or self._head_dim**-0.5)
