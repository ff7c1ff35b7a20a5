"""Int8 layers: the rounding, and two kernels that multiply the same integers."""

from __future__ import annotations

import pytest
import torch

from decoder.model.linear import int8_linear
from decoder.model.linear.int8_linear import (
    Int8Linear,
    Kernels,
    kernels_of,
    multiplies_bfloat16,
    quantise,
    quantised,
    rows_of,
)
from tests.support.tiny_models import tiny_model

FORMATS = [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.skipif(not multiplies_bfloat16(), reason=""))]


def layer(out: int, columns: int, dtype: torch.dtype, kernels: Kernels) -> Int8Linear:
    source = torch.Generator().manual_seed(out + columns)
    weight, bias = torch.randn(out, columns, generator=source), torch.randn(out, generator=source)
    return Int8Linear(weight, bias, dtype, kernels)


def test_weights_are_rounded_to_the_nearest_multiple_of_their_rows_scale() -> None:
    weight = torch.randn(40, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 3, 40)[:, None]
    weight[7] = 0
    integers, scale = quantised(weight)
    assert integers.dtype is torch.int8
    assert integers.abs().max() == 127
    assert torch.equal(scale, scale.bfloat16().float()), "a scale is exact in every format of activations"
    assert torch.equal(scale[7], torch.tensor(1.0))
    assert not integers[7].any()
    away = (integers * scale[:, None] - weight).abs()
    most = weight.abs().amax(1)
    assert (away <= 0.5 * scale[:, None] * 1.0001 + (most - 127 * scale).clamp_min(0)[:, None]).all()


@pytest.mark.parametrize("wide", FORMATS)
@pytest.mark.parametrize(("out", "columns"), [(61, 32), (256, 512), (1, 64)])
def test_both_kernels_multiply_the_same_integers_and_round_once(out: int, columns: int, wide: torch.dtype) -> None:
    """Activations that are integers have exact sums, whatever their order: so both kernels give the same bits."""
    kernels = Kernels(wide=wide)
    made = layer(out, columns, torch.bfloat16, kernels)
    for rows in (1, 3, 8, 33):
        inputs = torch.randint(-8, 9, (1, rows, columns), generator=torch.Generator().manual_seed(rows)).bfloat16()
        exact = (inputs.double() @ made.integers.double().T * made.scale.double()).float().bfloat16() + made.bias
        for kernels.border in (0, rows):
            assert torch.equal(made(inputs), exact)


@pytest.mark.parametrize("wide", FORMATS)
def test_kernels_differ_by_the_order_of_summation_only(wide: torch.dtype) -> None:
    kernels = Kernels(wide=wide)
    made = layer(128, 2048, torch.bfloat16, kernels)
    inputs = torch.randn(16, 2048, generator=torch.Generator().manual_seed(3)).bfloat16()
    sums = inputs.double() @ made.integers.double().T
    bound = (inputs.double().abs() @ made.integers.double().abs().T) * 2048 * 2**-24 * made.scale.double()
    for kernels.border in (0, 16):
        product = made(inputs) - made.bias
        rounding = 2**-7 * (sums * made.scale.double()).abs().clamp_min(1.0)
        assert ((product.double() - sums * made.scale.double()).abs() <= bound + 2 * rounding).all()


def test_the_border_picks_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, int]] = []
    few, wide = Int8Linear._few, Int8Linear._wide
    monkeypatch.setattr(Int8Linear, "_few", lambda self, rows: taken.append(("few", len(rows))) or few(self, rows))
    monkeypatch.setattr(Int8Linear, "_wide", lambda self, rows: taken.append(("wide", len(rows))) or wide(self, rows))
    kernels = Kernels(border=5)
    aligned, odd = layer(8, 32, torch.bfloat16, kernels), layer(8, 24, torch.bfloat16, kernels)
    for rows in (1, 5, 6):
        aligned(torch.ones(1, rows, 32).bfloat16())
    odd(torch.ones(1, 1, 24).bfloat16())
    assert taken == [("few", 1), ("few", 5), ("wide", 6), ("wide", 1)], "the few-row kernel reads whole vectors"
    kernels.border = 0
    aligned(torch.ones(1, 1, 32).bfloat16())
    assert taken[-1] == ("wide", 1)


def test_wide_products_convert_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Kernels(border=0)
    made = layer(50, 32, torch.bfloat16, kernels)
    inputs = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(5)).bfloat16()
    whole = made(inputs)
    kernels = made.kernels = Kernels(border=0)
    monkeypatch.setattr(int8_linear, "PIECE", 7 * 32)
    torch.testing.assert_close(made(inputs), whole, rtol=2**-7, atol=2**-7)
    assert made(inputs).shape == (2, 3, 50)
    assert kernels.nbytes == 4 * 7 * 32


def test_a_model_keeps_integers_instead_of_its_weights() -> None:
    model = tiny_model("qwen2").to(torch.float32)
    original = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    kernels = quantise(model)
    left = dict(model.named_parameters())
    assert kernels_of(model) is kernels
    assert {weight.dtype for weight in left.values()} == {torch.bfloat16}
    assert not any(name.endswith("proj.weight") or name == "lm_head.weight" for name in left)
    assert not any(type(module) is torch.nn.Linear for module in model.modules())
    assert torch.equal(model.model.embed_tokens.weight, original["model.embed_tokens.weight"].bfloat16())
    q_proj = model.model.layers[0].self_attn.q_proj
    assert torch.equal(q_proj.bias, original["model.layers.0.self_attn.q_proj.bias"].bfloat16())
    away = (q_proj.weight.float() - original["model.layers.0.self_attn.q_proj.weight"]).abs().max()
    assert away < 0.01 * original["model.layers.0.self_attn.q_proj.weight"].abs().max()
    assert torch.is_floating_point(model.model.rotary_emb.inv_freq)
    assert model.model.rotary_emb.inv_freq.dtype is torch.float32


def test_tied_embeddings_stay_for_lookups_and_the_output_matrix_becomes_integers() -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    before = model.model.embed_tokens.weight.detach().clone()
    quantise(model, torch.float32)
    assert isinstance(model.lm_head, Int8Linear)
    assert torch.equal(model.model.embed_tokens.weight, before)
    integers, scale = quantised(before)
    assert torch.equal(model.lm_head.weight, integers * scale[:, None])


def test_rows_of_a_layer_are_its_rows() -> None:
    made, numbers = layer(20, 32, torch.bfloat16, Kernels()), torch.tensor([3, 7, 19])
    assert torch.equal(rows_of(made, numbers), made.weight[numbers])
    inputs = torch.randn(2, 32, generator=torch.Generator().manual_seed(5)).bfloat16()
    torch.testing.assert_close(made.rows(numbers)(inputs), made(inputs)[:, numbers], rtol=2**-7, atol=2**-7)
    stock = torch.nn.Linear(4, 6)
    assert torch.equal(rows_of(stock, torch.tensor([5, 0])), stock.weight[[5, 0]])


def test_gradients_pass_through() -> None:
    made = layer(8, 32, torch.float32, Kernels(border=0))
    inputs = torch.randn(3, 32, generator=torch.Generator().manual_seed(5), requires_grad=True)
    made(inputs).sum().backward()
    assert inputs.grad is not None
    torch.testing.assert_close(inputs.grad, made.weight.sum(0).expand(3, -1))
