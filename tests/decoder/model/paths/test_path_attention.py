"""Attention along paths: the stock kernel's up to rounding, and the same bits in any company."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model import attention
from decoder.model.pass_parts import TreePass
from decoder.model.paths import path_attention
from decoder.model.paths.exponentials import LEAST, exponentials
from decoder.model.paths.path_attention import attend, readable
from decoder.model.paths.paths import KEYS, Paths
from decoder.model.target import TargetModel
from tests.support.tiny_models import tiny_model

DTYPES = (torch.bfloat16, torch.float32)
SHAPES = (
    (12, 2, 128, 0, 1),
    (12, 2, 128, 400, 1),
    (6, 2, 128, KEYS - 1, 5),
    (9, 3, 64, KEYS, 17),
    (4, 4, 16, 70, 64),
    (3, 1, 80, 100, 40),
    (4, 2, 8, 40, 6),
    (2, 2, 256, 2 * KEYS + 1, 3),
)
"""Heads, key heads, columns, earlier keys, rows."""
needs_code = pytest.mark.skipif(
    not path_attention.suits(), reason="the machine code of attention is for x86 processors with AVX2"
)


def own_of(rows: int) -> NDArray[np.bool_]:
    """A random tree: bool [rows, rows]."""
    draw, own = np.random.default_rng(rows), np.eye(rows, dtype=np.bool_)
    for row in range(1, rows):
        own[row] |= own[draw.integers(0, row)]
    return own


def tensors(shape: tuple[int, int, int, int, int], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Queries [heads, rows, dim] as a model gives them, and keys and values of a longer buffer."""
    heads, kv_heads, dim, before, rows = shape
    draw = torch.Generator().manual_seed(sum(shape))
    query = torch.randn(rows, heads, dim, generator=draw).to(dtype).transpose(0, 1)
    buffer = torch.randn(2, kv_heads, before + rows + 9, dim, generator=draw).to(dtype)
    return query, buffer[0, :, : before + rows], buffer[1, :, : before + rows]


def attended(*inputs: torch.Tensor, paths: Paths, scaling: float = 0.3) -> torch.Tensor:
    output = torch.empty(inputs[0].shape[1], inputs[0].shape[0], inputs[0].shape[2], dtype=inputs[0].dtype)
    attend(*inputs, paths, scaling, output)
    return output


@needs_code
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_code_is_used_where_it_is_for_the_processor(dtype: torch.dtype) -> None:
    assert path_attention.available(dtype, 64)
    assert TargetModel(tiny_model().to(dtype)).along_paths
    assert not TargetModel(tiny_model()).along_paths, "there is none for float64"


@needs_code
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_stock_kernel_up_to_rounding(shape: tuple[int, int, int, int, int], dtype: torch.dtype) -> None:
    (query, keys, values), before, rows = tensors(shape, dtype), shape[3], shape[4]
    own = own_of(rows)
    mask = torch.cat([torch.ones(rows, before, dtype=torch.bool), torch.from_numpy(own)], dim=1)
    doubled = (part[None].double() for part in (query, keys, values))
    exact = attention._attend(*doubled, mask if rows > 1 else None, 0.3)[0].transpose(0, 1)
    got = attended(query, keys, values, paths=Paths.of(before, own))
    assert got.dtype is dtype
    step = 2**-8 if dtype is torch.bfloat16 else 2**-18
    assert (got.double() - exact).abs().max() <= step * values.abs().max()


@needs_code
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[3] * shape[4] <= 700])
def test_the_code_has_the_bits_of_the_readable_form(shape: tuple[int, int, int, int, int], dtype: torch.dtype) -> None:
    inputs, paths = tensors(shape, dtype), Paths.of(shape[3], own_of(shape[4]))
    assert torch.equal(attended(*inputs, paths=paths), readable(*inputs, paths, 0.3))


@needs_code
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("before", [0, 1, KEYS - 1, KEYS, 3 * KEYS + 5])
def test_a_row_has_the_bits_of_its_text_alone(dtype: torch.dtype, before: int) -> None:
    """A branch of a tree, the same keys as running text, and each row of that by itself."""
    rows, threads = 40, torch.get_num_threads()
    query, keys, values = tensors((6, 2, 64, before, rows), dtype)
    own = own_of(rows)
    got = attended(query, keys, values, paths=Paths.of(before, own))
    try:
        for row in range(0, rows, 3):
            seen = [*range(before), *(before + own[row].nonzero()[0])]
            alone = (query[:, [row]], keys[:, seen], values[:, seen])
            for count in (1, 3):
                torch.set_num_threads(count)
                single = attended(*alone, paths=Paths.of(len(seen) - 1, np.ones((1, 1), np.bool_)))
                assert torch.equal(got[row], single[0])
    finally:
        torch.set_num_threads(threads)
    text = np.tri(rows, dtype=np.bool_)
    whole = attended(query, keys, values, paths=Paths.of(before, text))
    for piece in Paths.pieces(before, rows, 7):
        part = attended(query[:, piece.first : piece.past], keys, values, paths=piece)
        assert torch.equal(part, whole[piece.first : piece.past])


def test_paths_have_the_keys_of_each_row_in_order() -> None:
    own = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], np.bool_)
    paths = Paths.of(KEYS + 2, own)
    assert (paths.shared, paths.first, paths.past) == (KEYS, 0, 3)
    assert paths.lengths.tolist() == [3, 4, 4]
    kept = [row[:length].tolist() for row, length in zip(paths.keys, paths.lengths, strict=True)]
    first = [KEYS, KEYS + 1, KEYS + 2]
    assert kept == [first, [*first, KEYS + 3], [*first, KEYS + 4]]
    assert paths.keys.shape[1] % KEYS == 0
    assert int(paths.keys.max()) < KEYS + 5, "what stands behind the last key is read, too"


def test_exponentials_are_near_those_of_float64() -> None:
    values = -torch.linspace(0.0, 90.0, 9001)
    got, exact = exponentials(values).double(), values.double().exp()
    assert (got / exact - 1)[values >= LEAST].abs().max() < 2**-22
    assert not got[values < LEAST].any()
    assert exponentials(torch.tensor([0.0, float("-inf")])).tolist() == [1.0, 0.0]


@needs_code
def test_what_is_no_number_stays_in_its_row() -> None:
    query, keys, values = tensors((4, 2, 16, 10, 4), torch.float32)
    own, query = np.eye(4, dtype=np.bool_), query.clone()
    clean = attended(query, keys, values, paths=Paths.of(10, own))
    query[:, 1] = float("nan")
    got = attended(query, keys, values, paths=Paths.of(10, own))
    assert got[1].isnan().all()
    assert torch.equal(got[[0, 2, 3]], clean[[0, 2, 3]])


@needs_code
def test_the_check_sees_a_wrong_code(monkeypatch: pytest.MonkeyPatch) -> None:
    right = path_attention.code

    def changed(bits: int, dim: int) -> Any:
        return lambda fields, threads: right(bits, dim)([*fields[:13], fields[13] + 1, *fields[14:]], threads)

    assert path_attention._right(torch.float32, 16)
    monkeypatch.setattr(path_attention, "code", changed)  # the last bit of the scaling
    assert not path_attention._right(torch.float32, 16)


def test_it_is_not_available_without_its_instructions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    processor = tmp_path / "cpuinfo"
    processor.write_text("flags : sse4_2 avx\n")
    assert not path_attention.available(torch.float32, 16, processor)
    processor.write_text("flags : avx2 fma\n")

    def missing(dtype: torch.dtype, dim: int) -> bool:
        raise ImportError("no llvmlite")

    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(path_attention, "_right", missing)
        assert not path_attention.available(torch.float32, 48, processor)
    assert "no llvmlite" in caplog.text


def branched(target: TargetModel) -> torch.Tensor:
    """The logits of a draft of two branches behind a prompt."""
    cache, tree = target.new_cache(60), DraftTree()
    target.prefill([3, 4, 5] * 13, cache)
    source = TokenSource("test")
    tree.add_chain([6, 7], [source] * 2, tree.add(5, ROOT, source))
    tree.add(8, ROOT, source)
    return target.forward_tree([TreePass(cache, 4, tree)])[0].logits


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_with_and_without_paths_agree(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TargetModel(tiny_model(hidden=64).to(dtype))
    along = branched(made)
    monkeypatch.setattr(made, "along_paths", False)
    step = 2**-8 if dtype is torch.bfloat16 else 2**-20
    assert (along - branched(made)).abs().max() <= 16 * step * along.abs().max()
