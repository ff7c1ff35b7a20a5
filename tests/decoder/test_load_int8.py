"""`dtype="int8"`: what is loaded, what it takes, where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from decoder import SamplingParams, load_engine
from decoder.bench.format_quality import compare_formats
from decoder.errors import BitwiseUnavailable
from decoder.load import load_target
from decoder.model.fingerprint import fingerprint
from decoder.model.linear.int8 import int8_linear
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.model.linear.int8.torch_product import TorchProduct
from decoder.recording.prompts import BenchError
from tests.decoder.test_load import WORDS, folder_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return folder_of(tmp_path_factory.mktemp("models") / "target", 0, WORDS)


def test_an_engine_in_int8_answers_and_keeps_no_original_weights(folder: str, tmp_path: Path) -> None:
    engine = load_engine(folder, dtype="int8", draft_model=folder, state_dir=tmp_path)
    target = engine.target
    assert (target.number_format, target.dtype) == ("int8", torch.bfloat16)
    assert not any(type(module) is torch.nn.Linear for module in target.model.modules())
    matrices = [weight for weight in target.model.parameters() if weight.ndim == 2]
    assert len(matrices) == 1, "the embeddings alone"
    assert len(list(tmp_path.glob("cost-*.json"))) == 1
    params = SamplingParams(max_tokens=16, ignore_eos=True)
    answers = [
        [token for step in engine.generate([5, 6, 7], params, drafter=drafter) for token in step.tokens]
        for drafter in ("plain", "plain", "auto")  # in bfloat16 a draft's pass may round a near-tie otherwise
    ]
    assert answers[0] == answers[1]
    assert [len(answer) for answer in answers] == [16, 16, 16]


def test_memory_is_an_eighth_of_float64s_besides_what_stays(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_linear, "product_class", lambda columns: TorchProduct)  # fills no outputs of tiny layers
    small = load_target(folder, dtype="int8", device="cpu")[0]
    large = load_target(folder, dtype="float64", device="cpu")[0]
    layers = [module for module in small.model.modules() if isinstance(module, Int8Linear)]
    weights = sum(layer.in_features * layer.out_features for layer in layers)
    assert sum(layer.product.nbytes for layer in layers) == weights
    assert small.nbytes < large.nbytes - 7 * weights


def test_heads_and_adapters_of_the_model_fit_its_int8_form(folder: str) -> None:
    marks = {dtype: fingerprint(load_target(folder, dtype=dtype, device="cpu")[0]) for dtype in ("float32", "int8")}
    assert marks["int8"] == marks["float32"]


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_int8_elsewhere_says_what_to_choose(device: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder.load.check_device", lambda device: None)
    with pytest.raises(ValueError, match=rf"int8 is for the device cpu, and the device is {device}; choose bfloat16"):
        load_engine(folder, dtype="int8", device=device)


def test_an_unknown_format_lists_those_of_integers_too(folder: str) -> None:
    with pytest.raises(ValueError, match=r"float16, int8, int4, got 'int3'"):
        load_engine(folder, dtype="int3")


def test_quality_of_a_format(folder: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{(7 * number) % 61}" for number in range(700)))
    seen: list[tuple[str, int, int]] = []
    found = compare_formats(folder, dtype="int8", file=text, progress=lambda *now: seen.append(now))
    assert (found.tokens, found.dtype, found.reference) == (698, "int8", "float32")
    assert seen == [("float32", 512, 700), ("float32", 700, 700), ("int8", 512, 700), ("int8", 700, 700)]
    assert 0.5 < found.agreement < 1.0
    assert found.perplexity != found.reference_perplexity
    assert 0.9 < found.perplexity / found.reference_perplexity < 1.2
    assert 0 < found.divergence < 0.5
    same = compare_formats(folder, dtype="float32", file=text, limit=300)
    assert (same.agreement, same.divergence, same.tokens) == (1.0, 0.0, 299)
    assert same.perplexity == same.reference_perplexity


def test_a_text_without_tokens_is_refused(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("w1")
    with pytest.raises(BenchError, match="longer text"):
        compare_formats(folder, dtype="int8", file=tmp_path / "empty.txt")
    with pytest.raises(BenchError, match="at least 2 tokens"):
        compare_formats(folder, dtype="int8", limit=1)


def test_int8_has_bitwise_passes(folder: str) -> None:
    assert load_engine(folder, dtype="int8", exact="bitwise").target.bitwise


def test_half_precision_has_no_bitwise_passes_and_says_what_to_choose(folder: str) -> None:
    with pytest.raises(
        BitwiseUnavailable, match="the model is float16 on cpu; load it with dtype float32, bfloat16, int8 or"
    ):
        load_engine(folder, dtype="float16", exact="bitwise")
