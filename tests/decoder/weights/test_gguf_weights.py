"""Weights of GGUF files, written tensor by tensor: what transformers' own loader reads, in less time and memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from decoder.errors import UnsupportedModel
from decoder.weights import gguf_weights
from decoder.weights.conversion import convert_gguf
from decoder.weights.model_folder import check_folder
from tests.decoder.weights.test_models_conversion import HEADS, KV_HEADS, load, tiny_model, write_gguf


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "tiny.gguf"


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = load(check_folder(folder)).state_dict()
    return weights


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def eight_bits(name: str, tensor: Any) -> tuple[Any, Any]:
    """Matrices in Q8_0, as in a quantized file."""
    if tensor.ndim == 1:
        return tensor, None
    return gguf.quantize(tensor, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0


def forbid_transformers_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("transformers' loader read the weights")

    monkeypatch.setattr("decoder.weights.conversion._load", never)


def interleaved(name: str, tensor: Any) -> tuple[Any, Any]:
    """Query and key rows in the order in which llama.cpp writes them for Llama."""
    heads = {"attn_q.weight": HEADS, "attn_k.weight": KV_HEADS}.get(name.partition(".")[2].partition(".")[2])
    if heads is None:
        return tensor, None
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(tensor.shape)), None


@pytest.mark.parametrize(("architecture", "change"), [("qwen2", None), ("qwen3", None), ("llama", interleaved)])
def test_the_model_of_a_file_is_the_one_that_was_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, change: Callable[..., Any] | None
) -> None:
    model = tiny_model(architecture)
    write_gguf(source, model, architecture, *([change] if change else []))
    forbid_transformers_loader(monkeypatch)
    assert convert_gguf(source, tmp_path / "out").exact
    assert same(weights_of(tmp_path / "out"), model.state_dict())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_quantized_weights_are_those_of_transformers_loader(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    write_gguf(source, tiny_model(), change=eight_bits)
    monkeypatch.setattr(gguf_weights, "BLOCK_WEIGHTS", 100)  # three rows at a time
    ours = convert_gguf(source, tmp_path / "ours", dtype=dtype)
    monkeypatch.setattr(gguf_weights, "AS_THEY_ARE", ())
    theirs = convert_gguf(source, tmp_path / "theirs", dtype=dtype)
    assert same(weights_of(tmp_path / "ours"), weights_of(tmp_path / "theirs"))
    assert ours == theirs  # the measured error, too
    for name in ("config.json", "generation_config.json"):
        assert (tmp_path / "ours" / name).read_text() == (tmp_path / "theirs" / name).read_text()


def test_float16_rounds_a_weight_by_at_most_one_in_2048(source: Path, tmp_path: Path) -> None:
    write_gguf(source, tiny_model(), change=eight_bits)
    done = convert_gguf(source, tmp_path / "out", dtype="float16")
    assert not done.exact
    assert 0 < done.max_rel_error <= 2**-11
    assert done.max_abs_error > 0


def test_large_models_are_written_in_several_files(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    write_gguf(source, model)
    monkeypatch.setattr(gguf_weights, "SHARD_BYTES", 20_000)
    convert_gguf(source, tmp_path / "out")
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    assert 1 < len(files) < len(index["weight_map"])
    assert sorted(set(index["weight_map"].values())) == files
    assert index["metadata"]["total_size"] == sum(weight.nbytes for weight in model.state_dict().values())
    assert same(weights_of(tmp_path / "out"), model.state_dict())


def test_tied_embeddings_are_stored_once_as_the_finer_of_the_two(source: Path, tmp_path: Path) -> None:
    def twice(name: str, tensor: Any) -> tuple[Any, Any]:
        return eight_bits(name, tensor) if name == "token_embd.weight" else (tensor, None)

    model = tiny_model()
    write_gguf(source, model, change=twice)
    convert_gguf(source, tmp_path / "out", tied=True)
    weights = weights_of(tmp_path / "out")
    assert torch.equal(weights["model.embed_tokens.weight"], model.lm_head.weight)
    assert torch.equal(weights["lm_head.weight"], model.lm_head.weight)
    assert json.loads((tmp_path / "out/config.json").read_text())["tie_word_embeddings"] is True
    from safetensors import safe_open

    with safe_open(tmp_path / "out/model.safetensors", "pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118 it is no mapping


def test_tied_embeddings_of_another_architecture_are_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(source, tiny_model())
    monkeypatch.setattr(gguf_weights, "AS_THEY_ARE", ())
    with pytest.raises(UnsupportedModel, match="tied embeddings"):
        convert_gguf(source, tmp_path / "out", tied=True)


def test_a_file_with_a_tensor_too_many_goes_to_transformers_loader(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    model.register_buffer("blk_9_extra", torch.ones(3))
    write_gguf(source, model)
    forbid_transformers_loader(monkeypatch)
    with pytest.raises(AssertionError, match="transformers' loader"):
        convert_gguf(source, tmp_path / "out")
