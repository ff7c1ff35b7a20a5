"""EAGLE checkpoints in the published layouts, fabricated: what is read, what is refused and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from decoder import Engine, SamplingParams, load_engine
from decoder.drafters.context import DrafterContext
from decoder.errors import EagleHeadError
from decoder.heads import checkpoint
from decoder.heads import shipped as shipped_heads
from decoder.heads.checkpoint import save
from decoder.heads.head import EagleHead, FittedHead
from decoder.model.fingerprint import describe
from decoder.model.shipped import find_shipped
from decoder.model.target import TargetModel
from tests.support.tiny_models import ARCHITECTURES, tiny_eagle, tiny_model, tiny_target

VOCAB, SIZE, WIDE, KEYS = 61, 32, 48, 16


def config(**changed: Any) -> dict[str, Any]:
    """As the authors' Llama heads have it."""
    return {
        **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 1},
        **{"hidden_size": SIZE, "intermediate_size": WIDE, "vocab_size": VOCAB, "num_attention_heads": 4},
        **{"num_key_value_heads": 2, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "pad_token_id": 0},
        **{"torch_dtype": "float16", "rope_theta": 10000.0, "bias": False, "transformers_version": "4.28.1"},
        **changed,
    }


def eagle2(*, biased: bool = False, fc_bias: bool = False, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    layer = "layers.0."
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (SIZE, 2 * SIZE),
        f"{layer}self_attn.q_proj.weight": (SIZE, SIZE),
        f"{layer}self_attn.k_proj.weight": (KEYS, SIZE),
        f"{layer}self_attn.v_proj.weight": (KEYS, SIZE),
        f"{layer}self_attn.o_proj.weight": (SIZE, SIZE),
        f"{layer}mlp.gate_proj.weight": (WIDE, SIZE),
        f"{layer}mlp.up_proj.weight": (WIDE, SIZE),
        f"{layer}mlp.down_proj.weight": (SIZE, WIDE),
        f"{layer}post_attention_layernorm.weight": (SIZE,),
    }
    if biased:
        shapes |= {f"{layer}self_attn.{name}_proj.bias": (KEYS,) for name in "kv"}
        shapes[f"{layer}self_attn.q_proj.bias"] = (SIZE,)
    if fc_bias:
        shapes["fc.bias"] = (SIZE,)
    return {name: 0.4 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def eagle3(draft_vocab: int, seed: int = 0) -> dict[str, torch.Tensor]:
    tensors = {
        name.replace("layers.0.", "midlayer."): tensor
        for name, tensor in eagle2(seed=seed).items()
        if not name.startswith("fc")
    }
    generator = torch.Generator().manual_seed(seed)
    for name, shape in {
        "fc.weight": (SIZE, 3 * SIZE),
        "lm_head.weight": (draft_vocab, SIZE),
        "midlayer.self_attn.q_proj.weight": (SIZE, 2 * SIZE),
        "midlayer.self_attn.k_proj.weight": (KEYS, 2 * SIZE),
        "midlayer.self_attn.v_proj.weight": (KEYS, 2 * SIZE),
    }.items():
        tensors[name] = 0.4 * torch.randn(shape, generator=generator)
    for name in ("norm", "midlayer.hidden_norm", "midlayer.input_layernorm"):
        tensors[f"{name}.weight"] = 1 + 0.1 * torch.randn(SIZE, generator=generator)
    if draft_vocab < VOCAB:
        chosen = torch.arange(draft_vocab) * 2
        tensors["d2t"] = chosen - torch.arange(draft_vocab)
        tensors["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill_(0, chosen, True)
    return tensors


def folder_of(path: Path, tensors: dict[str, torch.Tensor], name: str = "model.safetensors", **changed: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config(**changed)))
    if name.endswith(".bin"):
        torch.save(tensors, path / name)
    else:
        save_file(tensors, path / name)
    return path


def drafts(head: EagleHead, target: TargetModel, drafter: str = "eagle") -> tuple[list[int], int]:
    """(the answer, drafted tokens); the answer must be plain's."""
    engine = Engine(target, "plain", context=DrafterContext(eagle_head=FittedHead(head, target)))
    answers = []
    for name in ("plain", drafter):
        sequence = engine.start([5, 9, 14, 7], SamplingParams(max_tokens=20, ignore_eos=True), drafter=name)
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
        answers.append(sequence)
    assert answers[0].tokens == answers[1].tokens
    return answers[1].tokens, answers[1].stats.drafted


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("fc_bias", [False, True])
@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_published_eagle_2_heads_are_read(file: str, fc_bias: bool, architecture: str, tmp_path: Path) -> None:
    tensors = eagle2(biased=architecture == "qwen2", fc_bias=fc_bias)
    target = tiny_target(architecture)
    copy = {"embed_tokens.weight": target.model.get_input_embeddings().weight.detach().float()}
    folder = folder_of(tmp_path, tensors | copy, file, bias=fc_bias, qkv_bias=architecture == "qwen2")
    head = checkpoint.load(folder, allow_pickle=True)
    for name, tensor in tensors.items():
        assert torch.equal(head.state_dict()[name].float(), tensor), name
    assert type(head.layer.input_layernorm) is torch.nn.Identity
    assert drafts(head, target)[1] > 100


def test_a_copy_of_the_targets_embeddings_is_dropped_and_others_are_used(tmp_path: Path) -> None:
    target = TargetModel(tiny_model().float())
    own = target.model.get_input_embeddings().weight.detach()
    same = checkpoint.load(folder_of(tmp_path / "a", eagle2() | {"embed_tokens.weight": own.clone()}))
    assert FittedHead(same, target)._embeddings.data_ptr() == own.data_ptr()
    other = checkpoint.load(folder_of(tmp_path / "b", eagle2() | {"embed_tokens.weight": own + 1}))
    assert torch.equal(FittedHead(other, target)._embeddings, own + 1)


@pytest.mark.parametrize("draft_vocab", [VOCAB, 30])
def test_published_eagle_3_heads_are_read(draft_vocab: int, tmp_path: Path) -> None:
    target = TargetModel(tiny_model(layers=8))
    folder = folder_of(tmp_path, eagle3(draft_vocab), draft_vocab_size=draft_vocab)
    head = checkpoint.load(folder)
    assert head.eagle3
    fitted = FittedHead(checkpoint.load(folder), target)
    assert fitted.required_outputs.hidden == frozenset({1, 3, 4})
    assert head.tokens is None if draft_vocab == VOCAB else head.tokens.tolist() == list(range(0, 60, 2))  # type: ignore[union-attr]
    assert drafts(head, target)[1] > 100


def test_eagle_3_rows_are_the_same_in_pieces_and_at_once(tmp_path: Path) -> None:
    target = TargetModel(tiny_model(layers=8))
    fitted = FittedHead(checkpoint.load(folder_of(tmp_path, eagle3(VOCAB), draft_vocab_size=VOCAB)), target)
    text = torch.tensor([5, 9, 14, 7, 22, 3, 8])
    features = fitted.features(target.prefill(text.tolist(), target.new_cache(8), fitted.required_outputs))
    assert features is not None
    assert features.shape == (7, 3 * SIZE)
    whole, pieces = fitted.new_cache(8), fitted.new_cache(8)
    expected = fitted.catch_up(text, features, whole)
    for part in (slice(0, 3), slice(3, 4), slice(4, 7)):
        got = fitted.catch_up(text[part], features[part], pieces)
    torch.testing.assert_close(got, expected)
    wrong = fitted.catch_up(text, features.roll(1, 0), fitted.new_cache(8))
    assert not torch.allclose(wrong, expected)


def test_a_written_head_is_read_back(tmp_path: Path) -> None:
    for architecture in ARCHITECTURES:
        fitted = tiny_eagle(tiny_target(architecture), draft_vocab=20)
        fitted.head.tokens = fitted.tokens
        folder = save(fitted.head, tmp_path / architecture, dtype=torch.float32)
        again = checkpoint.load(folder)
        assert again.tokens is not None
        assert again.tokens.tolist() == fitted.tokens.tolist()  # type: ignore[union-attr]
        for name, tensor in load_file(folder / "head.safetensors").items():
            if name != "d2t":
                assert torch.equal(again.state_dict()[name].float(), tensor), name
        assert again.config.num_key_value_heads == 2
        assert drafts(again, tiny_target(architecture))[1] > 100


def drop(name: str) -> dict[str, torch.Tensor]:
    return {key: tensor for key, tensor in eagle2().items() if key != name}


@pytest.mark.parametrize(
    ("tensors", "changed", "says"),
    [
        (drop("fc.weight"), {}, r"lacks fc.weight"),
        (
            eagle2() | {"layers.1.self_attn.q_proj.weight": torch.ones(2)},
            {},
            r"no EAGLE head of this kind has: layers\.1",
        ),
        (eagle2(), {"hidden_size": 64}, r"fc.weight has shape \(32, 64\), config.json says \(64, 128\)"),
        ({"lm_head.weight": torch.ones(3)}, {}, r"neither layers.0"),
        (eagle2() | {"embed_tokens.weight": torch.ones(3, SIZE)}, {}, r"embed_tokens.weight has shape"),
        (eagle2() | {"d2t": torch.zeros(5)}, {}, r"d2t has shape \(5,\)"),
        (eagle2() | {"d2t": torch.full((5,), 99)}, {"draft_vocab_size": 5}, r"outside the vocabulary"),
        (eagle2() | {"d2t": torch.tensor([1, 0, 0])}, {"draft_vocab_size": 3}, r"names a token twice"),
        (eagle3(30) | {"midlayer.self_attn.q_proj.bias": torch.ones(SIZE)}, {"draft_vocab_size": 30}, r"biases"),
        (eagle2(), {"draft_vocab_size": 5}, r"no d2t"),
        (eagle2(), {"vocab_size": None}, r"lacks vocab_size"),
    ],
)
def test_what_is_wrong_is_said(
    tensors: dict[str, torch.Tensor], changed: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(EagleHeadError, match=says):
        checkpoint.load(folder_of(tmp_path, tensors, **changed))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EagleHeadError, match=r"no config\.json"):
        checkpoint.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(EagleHeadError, match="not JSON"):
        checkpoint.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config()))
    with pytest.raises(EagleHeadError, match="has no weights"):
        checkpoint.load(tmp_path)
    torch.save(eagle2(), tmp_path / "pytorch_model.bin")
    with pytest.raises(EagleHeadError, match="RAG_EAGLE_ALLOW_PICKLE"):
        checkpoint.load(tmp_path)
    checkpoint.load(tmp_path, allow_pickle=True)
    torch.save({"a": Path("code")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(EagleHeadError, match="weights alone"):
        checkpoint.load(tmp_path, allow_pickle=True)
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(EagleHeadError, match="something else"):
        checkpoint.load(tmp_path, allow_pickle=True)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(EagleHeadError, match="damaged"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"vocab_size": 60}, "vocabulary of 60 tokens, this model has 61"), ({}, "hidden size 32, this one has 64")],
)
def test_heads_of_other_models_are_refused(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    model = tiny_model() if changed else tiny_model(hidden=64)
    head = checkpoint.load(folder_of(tmp_path, eagle2(), **changed))
    with pytest.raises(EagleHeadError, match=says):
        FittedHead(head, TargetModel(model))


def test_eagle_3_needs_six_layers(tmp_path: Path) -> None:
    head = checkpoint.load(folder_of(tmp_path, eagle3(VOCAB), draft_vocab_size=VOCAB))
    with pytest.raises(EagleHeadError, match="only 2"):
        FittedHead(head, tiny_target())


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    from test_load import WORDS
    from test_load import folder_of as model_folder_of

    return Path(model_folder_of(tmp_path / "model", 0, WORDS))


def test_load_engine_finds_heads(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_heads, "FOLDER", tmp_path / "heads")

    def loaded(**named: Any) -> FittedHead | None:
        return load_engine(str(model_folder), drafter="plain", dtype="float64", **named).context.eagle_head

    assert loaded() is None
    with pytest.raises(EagleHeadError, match="there is no EAGLE head 'nowhere'"):
        loaded(eagle_head="nowhere")
    target = TargetModel(tiny_model())
    fitted = tiny_eagle(target)
    save(fitted.head, tmp_path / "heads" / "tiny", target=describe(target, "some-name"))
    assert loaded() is not None, "the same weights under another name"
    assert loaded(eagle_head="off") is None
    assert loaded(eagle_head="tiny") is not None
    assert loaded(eagle_head=tmp_path / "heads" / "tiny") is not None
    other = TargetModel(tiny_model(seed=5))
    package = shipped_heads.FOLDER
    assert find_shipped(package, other, "model") is None
    assert find_shipped(package, other, "some-name") == tmp_path / "heads" / "tiny", "the same name and sizes"
    assert find_shipped(package, TargetModel(tiny_model(hidden=64)), "some-name") is None
