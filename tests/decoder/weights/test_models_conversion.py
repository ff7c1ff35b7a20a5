"""GGUF conversion: exact weights in the smallest dtype, the right end tokens, a tokenizer that splits digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFWriter

from decoder.errors import UnsupportedModel
from decoder.weights.conversion import convert_gguf
from decoder.weights.model_folder import check_folder

LAYERS, WIDTH, INNER, HEADS, KV_HEADS = 2, 32, 64, 4, 2
BYTES = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256)]] + [
    chr(256 + code) for code in range(68)
]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = [*CONTROL, *sorted(set(BYTES)), "ĊĊ", "ĠĠ", "<|end|>"]
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] + '<|im_end|>' }}{% endfor %}"


Change = Callable[[str, Any], tuple[Any, Any]]


def unchanged(name: str, tensor: Any) -> tuple[Any, Any]:
    return tensor, None


def tiny_model(architecture: str = "qwen2") -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        architecture,
        vocab_size=len(VOCABULARY),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def write_gguf(path: Path, model: Any, architecture: str = "qwen2", change: Change = unchanged) -> None:
    """The model with a byte-level tokenizer of a few merges; `<|end|>` is an ordinary token there.

    `change` gives the tensor to write, and its type if it is quantized, from the name of a tensor and the tensor.
    """
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "model.layers": "blk",
    }
    writer = GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3 if token in CONTROL else 1 for token in VOCABULARY])
    writer.add_token_merges(["Ċ Ċ", "Ġ Ġ"])
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, weight in model.state_dict().items():
        gguf_name = name
        for ours, theirs in names.items():
            gguf_name = gguf_name.replace(ours, theirs)
        tensor, kind = change(gguf_name, weight.numpy())
        writer.add_tensor(gguf_name, tensor, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(torch.tensor([[5, 9, 30, 9, 5, 44]])).logits
    return result


def load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()


@pytest.mark.parametrize("rounded", ["float32", "bfloat16", "float16"])
def test_stores_the_smallest_exact_dtype_and_the_same_model(tmp_path: Path, rounded: str) -> None:
    model = tiny_model()
    with torch.no_grad():
        for weight in model.parameters():
            noisy = weight + 0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
            weight.copy_(noisy.to(getattr(torch, rounded)).float())
    write_gguf(tmp_path / "tiny.gguf", model)

    stages: list[str] = []
    done = convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out", progress=lambda stage, *_: stages.append(stage))

    assert (done.dtype, done.exact, done.max_abs_error) == (rounded, True, 0.0)
    assert list(dict.fromkeys(stages)) == ["measure", "convert", "write"]
    converted = load(check_folder(tmp_path / "out"))
    for name, weight in model.state_dict().items():
        assert torch.equal(converted.state_dict()[name], weight), name
    assert torch.allclose(logits(converted), logits(model), atol=1e-5)


def test_states_the_error_of_a_dtype_that_rounds(tmp_path: Path) -> None:
    model = tiny_model()
    write_gguf(tmp_path / "tiny.gguf", model)
    done = convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out", dtype="bfloat16")
    errors = [(weight.bfloat16().float() - weight).abs().max().item() for weight in model.parameters()]
    assert not done.exact
    assert done.max_abs_error == pytest.approx(max(errors), abs=1e-8)
    assert 0 < done.max_rel_error <= 2**-8
    assert json.loads((tmp_path / "out/conversion.json").read_text())["exact"] is False


def test_tokenizer_and_end_tokens(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    write_gguf(tmp_path / "tiny.gguf", tiny_model())
    out = tmp_path / "out"
    convert_gguf(tmp_path / "tiny.gguf", out)

    # `<|end|>` ends nothing here: in this vocabulary it is no control token.
    assert GenerationConfig.from_pretrained(out).eos_token_id == [2, 0]
    assert load(out).generation_config.eos_token_id == [2, 0]
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.eos_token_id == 2
    assert tokenizer.tokenize("\n\n1") == ["ĊĊ", "1"]
    assert (out / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    assert tokenizer.decode(tokenizer("x  42\n\n7").input_ids) == "x  42\n\n7"
    written = "".join((out / name).read_text() for name in ("config.json", "tokenizer_config.json"))
    assert str(tmp_path) not in written
    assert "gguf" not in written


def test_refuses_what_is_not_gguf(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"PK\3\4" * 100)
    with pytest.raises(UnsupportedModel, match="not a readable GGUF"):
        convert_gguf(tmp_path / "x.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
