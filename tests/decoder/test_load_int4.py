"""`dtype="int4"`: a GGUF file's own integers, from conversion to engine, and what is said where there are none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from decoder import SamplingParams, load_engine
from decoder.bench.format_quality import compare_formats
from decoder.load import load_target
from decoder.model.fingerprint import fingerprint
from decoder.model.linear.blocks import block_product
from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.planning import calibration
from decoder.weights import gguf_blocks
from decoder.weights.conversion import convert_gguf
from decoder.weights.model_folder import ModelError
from tests.decoder.test_load import WORDS, folder_of
from tests.decoder.weights import test_models_conversion as conversions
from tests.support.models.file_bytes import file_bytes, needs_int4

pytestmark = needs_int4
WIDTH = 256


def mixed(name: str, tensor: Any) -> tuple[Any, Any]:
    """As in a file in Q4_K_M: matrices in Q4_K, the output and the values in Q6_K, what does not fit in Q8_0."""
    if tensor.ndim == 1:
        return tensor, None
    kind = "Q6_K" if name.startswith(("output", "token_embd")) or "attn_v" in name else "Q4_K"
    if tensor.shape[1] % 256:
        return gguf.quantize(tensor, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0
    return file_bytes(torch.from_numpy(tensor), kind).numpy(), gguf.GGMLQuantizationType[kind]


@pytest.fixture(scope="module", params=["qwen2", "llama"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("int4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversions, "WIDTH", WIDTH)
        conversions.write_gguf(at / "tiny.gguf", conversions.tiny_model(request.param), request.param, mixed)
    convert_gguf(at / "tiny.gguf", at / "model", dtype="float32")
    return at / "model"


def test_the_conversion_copies_a_file_that_its_user_may_change(folder: Path) -> None:
    kept, original = folder / gguf_blocks.FILE, folder.parent / "tiny.gguf"
    assert kept.read_bytes() == original.read_bytes()
    assert not kept.samefile(original)


@pytest.mark.parametrize("names", [True, False])
def test_a_file_of_its_own_gets_a_second_name_where_it_can(
    names: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("another file system")

    if not names:
        monkeypatch.setattr("os.link", refuse)
    original = tmp_path / "link.gguf"
    original.symlink_to(folder.parent / "tiny.gguf")  # as in the hub's cache
    convert_gguf(original, tmp_path / "out", dtype="float32", owned=True)
    kept = tmp_path / "out" / gguf_blocks.FILE
    assert kept.samefile(original) is names
    assert kept.read_bytes() == original.read_bytes()
    assert not kept.is_symlink()


def test_another_conversion_into_the_folder_leaves_no_old_file(folder: Path, tmp_path: Path) -> None:
    convert_gguf(folder.parent / "tiny.gguf", tmp_path / "out", dtype="float32")
    assert gguf_blocks.has_blocks(tmp_path / "out")
    conversions.write_gguf(tmp_path / "plain.gguf", conversions.tiny_model())
    convert_gguf(tmp_path / "plain.gguf", tmp_path / "out")
    assert not gguf_blocks.has_blocks(tmp_path / "out"), "a file without such blocks is of no use"


def test_a_file_of_few_blocks_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(name: str, tensor: Any) -> tuple[Any, Any]:
        return mixed(name, tensor) if "attn_v" in name else (tensor, None)

    monkeypatch.setattr(conversions, "WIDTH", WIDTH)
    conversions.write_gguf(tmp_path / "tiny.gguf", conversions.tiny_model(), change=few)
    convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out")
    assert not gguf_blocks.has_blocks(tmp_path / "out")


def test_a_tied_output_matrix_has_the_blocks_of_the_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Qwen's files, which have that matrix twice; the output's is kept."""
    monkeypatch.setattr(conversions, "WIDTH", WIDTH)
    conversions.write_gguf(tmp_path / "tiny.gguf", conversions.tiny_model(), change=mixed)
    convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out", dtype="float32", tied=True)
    target = load_target(str(tmp_path / "out"), dtype="int4", device="cpu")[0]
    assert isinstance(target.model.lm_head, BlockLinear)
    assert torch.equal(target.model.lm_head.product.matrix.weight(), conversions.load(tmp_path / "out").lm_head.weight)
    assert target.model.lm_head.product.matrix.format == "Q6_K"


def test_a_draft_model_without_the_file_is_int8(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "draft", ignore=shutil.ignore_patterns(gguf_blocks.FILE))
    draft = load_engine(str(folder), dtype="int4", draft_model=str(tmp_path / "draft")).context.draft_model
    assert draft is not None
    assert draft.number_format == "int8"


def test_every_layer_has_the_weights_of_the_file(folder: Path) -> None:
    """Also queries and keys of Llama, whose rows the file has in another order."""
    original = conversions.load(folder)
    target = load_target(str(folder), dtype="int4", device="cpu")[0]
    found = {name: layer for name, layer in target.model.named_modules() if isinstance(layer, BlockLinear)}
    assert len(found) == 2 * 6 + 1, "all but the matrices whose inputs are no multiple of 256"
    for name, layer in found.items():
        assert torch.equal(layer.product.matrix.weight(), original.get_submodule(name).weight), name
    others = [name for name, layer in target.model.named_modules() if isinstance(layer, Int8Linear)]
    assert [name.rpartition(".")[2] for name in others] == ["down_proj", "down_proj"]
    assert (target.number_format, target.dtype) == ("int4", torch.bfloat16)
    assert target.integer_formats == {"int4", "int8"}


def test_an_engine_in_int4_answers_as_the_original_does(folder: Path, tmp_path: Path) -> None:
    answers = {}
    for dtype in ("float32", "int4"):
        engine = load_engine(str(folder), dtype=dtype, state_dir=tmp_path)
        params = SamplingParams(max_tokens=12, ignore_eos=True)
        for drafter in ("plain", "auto"):
            steps = engine.generate([5, 6, 7, 5, 6, 7], params, drafter=drafter)
            answers[dtype, drafter] = [token for step in steps for token in step.tokens]
    assert answers["int4", "plain"] == answers["int4", "auto"]
    assert len(answers["int4", "plain"]) == 12
    assert len(list(tmp_path.glob("cost-*.json"))) == 2, "each format has a cost curve of its own"


def test_the_cost_curve_goes_by_the_instructions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target(str(folder), dtype="int4", device="cpu")[0]
    before = calibration.fingerprint(target, "tiny")
    monkeypatch.setattr(block_product, "kernel_name", lambda: "another")
    assert calibration.fingerprint(target, "tiny") != before


def test_heads_and_adapters_of_the_model_fit_its_int4_form(folder: Path) -> None:
    marks = {fingerprint(load_target(str(folder), dtype=dtype, device="cpu")[0]) for dtype in ("float32", "int4")}
    assert len(marks) == 1


def test_int4_has_bitwise_passes(folder: Path) -> None:
    assert load_engine(str(folder), dtype="int4", exact="bitwise").target.bitwise


def test_the_model_is_little_changed(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(chr(97 + (7 * number) % 23) for number in range(400)))
    found = compare_formats(str(folder), dtype="int4", file=text, limit=60)
    assert 0 < abs(found.divergence) < 0.01
    assert found.agreement > 0.9


def test_a_model_without_the_file_says_what_to_do(tmp_path: Path) -> None:
    other = folder_of(tmp_path / "other", 0, WORDS)
    with pytest.raises(
        ModelError, match=r"has no blocks.gguf.*rag models pull.*Llama, Qwen2.*Other models run as int8"
    ):
        load_engine(other, dtype="int4")
    (Path(other) / gguf_blocks.FILE).write_bytes(b"GGUF" * 10)
    with pytest.raises(ModelError, match="not a readable GGUF file"):
        load_engine(other, dtype="int4")


def test_the_file_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    other = Path(folder_of(tmp_path / "other", 0, WORDS))
    (other / gguf_blocks.FILE).write_bytes((folder / gguf_blocks.FILE).read_bytes())
    with pytest.raises(ModelError, match="does not have the weights of this model"):
        load_engine(str(other), dtype="int4")


def test_where_the_code_cannot_be_made_int8_is_the_advice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_product, "available", lambda: False)
    with pytest.raises(ValueError, match=r"int4 needs machine code.*choose int8"):
        load_engine(str(folder), dtype="int4")
