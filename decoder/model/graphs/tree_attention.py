"""Attention of trees on a GPU in launches of fixed shape: sizes are read on the device, so a graph can replay them.

The keys and values of every sequence stay in its own `KVCache`, whose address is one of the numbers that a pass brings.
So one graph serves sequences of any length, and a cache can grow or move between passes. Each program of `_attend`
handles one tile (some rows of one sequence), one key head and one part of the keys, as in FlashDecoding; `_combine`
adds the parts up. Needs Triton, which torch's builds for CUDA bring along.

Source of the split over keys: Dao et al., "Flash-Decoding for long-context inference" (2023).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

KEYS = 64
"""Keys of a step of a program."""
PROGRAMS = 264
"""Programs that keep a large GPU busy: keys are split into parts until there are about this many."""
MOST_PARTS = 32
ALIGNED = 4
"""Integers to whose multiples a table is aligned: kernels are compiled anew for tables that are not."""


@triton.jit(do_not_specialize=["layer"])  # type: ignore[untyped-decorator]
def _write(
    keys,
    values,
    row_sequence,
    row_number,
    address,
    capacity,
    length,
    layer,
    stride_head,
    stride_row,
    kv_heads: tl.constexpr,
    dim: tl.constexpr,
    padded_dim: tl.constexpr,
):
    """Write one row's keys and values of one head to its sequence's cache."""
    row, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.load(row_sequence + row)
    if sequence >= 0:
        room = tl.load(capacity + sequence).to(tl.int64)
        place = tl.load(length + sequence) + tl.load(row_number + row)
        buffer = tl.load(address + sequence).to(tl.pointer_type(keys.dtype.element_ty))
        dims = tl.arange(0, padded_dim)
        source = head * stride_head + row * stride_row + dims
        target = buffer + ((layer * 2 * kv_heads + head) * room + place) * dim + dims
        tl.store(target, tl.load(keys + source, mask=dims < dim), mask=dims < dim)
        tl.store(target + kv_heads * room * dim, tl.load(values + source, mask=dims < dim), mask=dims < dim)


@triton.jit(do_not_specialize=["layer", "rows", "parts"])  # type: ignore[untyped-decorator]
def _attend(
    query,
    tile_sequence,
    tile_row,
    first_row,
    rows_of,
    address,
    capacity,
    length,
    visible,
    sums,
    peaks,
    totals,
    scaling,
    layer,
    stride_head,
    stride_row,
    rows,
    parts,
    kv_heads: tl.constexpr,
    groups: tl.constexpr,
    dim: tl.constexpr,
    padded_dim: tl.constexpr,
    tile_rows: tl.constexpr,
    lanes: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """One part of the keys for one tile: unnormalised sums [lanes, dim], and each lane's peak and total weight."""
    tile, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sequence = tl.load(tile_sequence + tile)
    if sequence >= 0:
        count = tl.load(rows_of + sequence)
        kept = tl.load(length + sequence)
        room = tl.load(capacity + sequence).to(tl.int64)
        buffer = tl.load(address + sequence).to(tl.pointer_type(query.dtype.element_ty))
        lane = tl.arange(0, lanes)
        own = tl.load(tile_row + tile) + lane // groups  # the lane's row among its sequence's
        used = (lane < tile_rows * groups) & (own < count)
        row = tl.load(first_row + sequence) + own  # in the pass
        dims = tl.arange(0, padded_dim)
        query_head = head * groups + lane % groups
        asked = tl.load(
            query + query_head[:, None] * stride_head + row[:, None] * stride_row + dims[None, :],
            mask=used[:, None] & (dims[None, :] < dim),
            other=0.0,
        )
        keys = buffer + (layer * 2 * kv_heads + head) * room * dim
        values = keys + kv_heads * room * dim
        total = kept + count
        size = tl.cdiv(tl.cdiv(total, block), parts) * block
        end = tl.minimum(total, (part + 1) * size)
        peak = tl.full([lanes], float("-inf"), tl.float32)
        weight = tl.zeros([lanes], tl.float32)
        result = tl.zeros([lanes, padded_dim], tl.float32)
        for start in range(part * size, end, block):
            place = start + tl.arange(0, block)
            inside = place < end
            at = place[:, None].to(tl.int64) * dim + dims[None, :]
            there = inside[:, None] & (dims[None, :] < dim)
            key = tl.load(keys + at, mask=there, other=0.0)
            score = tl.dot(asked, tl.trans(key), input_precision=precision) * scaling
            new = place - kept  # the pass's own rows
            seen = tl.load(
                visible + row[:, None] * rows + new[None, :],
                mask=used[:, None] & inside[None, :] & (new[None, :] >= 0),
                other=0,
            )
            seen = inside[None, :] & ((new[None, :] < 0) | (seen > 0))
            score = tl.where(seen, score, float("-inf"))
            higher = tl.maximum(peak, tl.max(score, 1))
            base = tl.where(higher == float("-inf"), 0.0, higher)
            share = tl.exp(score - base[:, None])
            old = tl.exp(peak - base)
            weight = weight * old + tl.sum(share, 1)
            value = tl.load(values + at, mask=there, other=0.0)
            result = result * old[:, None] + tl.dot(share.to(value.dtype), value, input_precision=precision)
            peak = higher
        slot = (part * rows + row) * kv_heads * groups + query_head
        tl.store(peaks + slot, peak, mask=used)
        tl.store(totals + slot, weight, mask=used)
        tl.store(sums + slot[:, None] * padded_dim + dims[None, :], result, mask=used[:, None])


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator]
def _combine(
    sums,
    peaks,
    totals,
    row_sequence,
    output,
    rows,
    heads: tl.constexpr,
    dim: tl.constexpr,
    padded_dim: tl.constexpr,
    parts: tl.constexpr,
):
    """Add up the parts of one row and head. Rows of no sequence become zeros."""
    row, head = tl.program_id(0), tl.program_id(1)
    dims = tl.arange(0, padded_dim)
    result = tl.zeros([padded_dim], tl.float32)
    if tl.load(row_sequence + row) >= 0:
        part = tl.arange(0, parts)
        slot = (part * rows + row) * heads + head
        peak = tl.load(peaks + slot)
        share = tl.exp(peak - tl.max(peak, 0))
        weight = tl.sum(share * tl.load(totals + slot), 0)
        whole = tl.load(sums + slot[:, None] * padded_dim + dims[None, :])
        result = tl.sum(whole * share[:, None], 0) / weight
    at = (row * heads + head) * dim + dims
    tl.store(output + at, result.to(output.dtype.element_ty), mask=dims < dim)


class Tables:
    """The numbers that a pass of `rows` rows brings: integers in one tensor, so that one transfer brings them all.

    Attributes:
        ids, positions: [rows].
        row_sequence: [rows], the number of each row's sequence; -1 for padding.
        row_number: [rows], its number among that sequence's rows.
        tile_sequence, tile_row: [tiles], the sequence of a tile (-1 for none) and its first row among that sequence's.
        first_row, rows_of, capacity, length: [sequences].
        visible: uint8 [rows, rows]; whether a row sees its sequence's row of a number.
        address: int64 [sequences], of the caches' buffers.
    """

    def __init__(self, rows: int, sequences: int, tiles: int, device: torch.device) -> None:
        sizes = {"address": 2 * sequences, "ids": rows, "positions": rows, "row_sequence": rows, "row_number": rows}
        sizes |= {"tile_sequence": tiles, "tile_row": tiles, "visible": (rows * rows + 3) // 4}
        sizes |= dict.fromkeys(("first_row", "rows_of", "capacity", "length"), sequences)
        pinned = device.type == "cuda"
        whole = sum(-(-size // ALIGNED) * ALIGNED for size in sizes.values())
        self.host = torch.zeros(whole, dtype=torch.int32, pin_memory=pinned)
        self.device = torch.zeros_like(self.host, device=device, pin_memory=False) if pinned else self.host
        self.rows, self.sequences, self.tiles = rows, sequences, tiles
        self._places: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self._places[name] = slice(start, start + size)
            start += -(-size // ALIGNED) * ALIGNED

    def parts(self, whole: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tables as views of `host` or `device`."""
        found = {name: whole[place] for name, place in self._places.items()}
        found["address"] = found["address"].view(torch.int64)
        found["visible"] = found["visible"].view(torch.uint8)[: self.rows * self.rows].view(self.rows, self.rows)
        return found

    def send(self) -> None:
        """Start the transfer of `host` to the device."""
        if self.device is not self.host:
            self.device.copy_(self.host, non_blocking=True)


class TreeAttention:
    """The two steps of attention for passes of one shape, with buffers for the parts.

    Args:
        tables: of the pass.
        tile_rows: rows of a tile.
        heads, kv_heads, dim: of the model.
    """

    def __init__(self, tables: Tables, tile_rows: int, heads: int, kv_heads: int, dim: int) -> None:
        self._tables, self._tile_rows = tables, tile_rows
        self._table = tables.parts(tables.device)
        self._heads, self._kv_heads, self._dim = heads, kv_heads, dim
        self._padded = max(16, triton.next_power_of_2(dim))
        programs = PROGRAMS if tables.device.is_cuda else 2 * tables.tiles * kv_heads
        parts = max(1, min(MOST_PARTS, programs // (tables.tiles * kv_heads)))
        self._parts = 1 << (parts.bit_length() - 1)
        device = tables.device.device
        slots = self._parts * tables.rows * heads
        self._sums = torch.empty(slots * self._padded, device=device)
        self._peaks, self._totals = torch.empty(slots, device=device), torch.empty(slots, device=device)

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write one layer's rows, [1, kv_heads, rows, dim], to the caches of their sequences."""
        if values.stride() != keys.stride() or keys.stride(3) != 1:
            keys, values = keys.contiguous(), values.contiguous()
        names = ("row_sequence", "row_number", "address", "capacity", "length")
        _write[self._tables.rows, self._kv_heads](
            keys,
            values,
            *(self._table[name] for name in names),
            layer,
            keys.stride(1),
            keys.stride(2),
            self._kv_heads,
            self._dim,
            self._padded,
            num_warps=1,
        )

    def attend(self, layer: int, query: torch.Tensor, scaling: float) -> torch.Tensor:
        """Attention of one layer: query [1, heads, rows, dim] -> [1, rows, heads, dim]."""
        if query.stride(3) != 1:
            query = query.contiguous()
        groups = self._heads // self._kv_heads
        lanes = max(16, triton.next_power_of_2(self._tile_rows * groups))
        names = ("tile_sequence", "tile_row", "first_row", "rows_of", "address", "capacity", "length", "visible")
        _attend[self._tables.tiles, self._kv_heads, self._parts](
            query,
            *(self._table[name] for name in names),
            self._sums,
            self._peaks,
            self._totals,
            scaling,
            layer,
            query.stride(1),
            query.stride(2),
            self._tables.rows,
            self._parts,
            self._kv_heads,
            groups,
            self._dim,
            self._padded,
            self._tile_rows,
            lanes,
            KEYS if query.element_size() <= 2 else KEYS // 2,
            "ieee",
            num_warps=4 if lanes <= 64 else 8,
            num_stages=2,
        )
        output: Any = query.new_empty(1, self._tables.rows, self._heads, self._dim)
        _combine[self._tables.rows, self._heads](
            self._sums,
            self._peaks,
            self._totals,
            self._table["row_sequence"],
            output,
            self._tables.rows,
            self._heads,
            self._dim,
            self._padded,
            self._parts,
            num_warps=1,
        )
        return output  # type: ignore[no-any-return]
