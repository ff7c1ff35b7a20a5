"""Int8 layers: the rounding of weights and rows, and products whose sums are exact."""

from __future__ import annotations

import pytest
import torch

from decoder.model.linear.int8 import int8_linear
from decoder.model.linear.int8.int8_linear import Int8Linear, quantised
from decoder.model.linear.int8.torch_product import TorchProduct
from decoder.model.linear.quantise import formats_of, quantise, rows_of
from decoder.model.linear.rotation import rotated
from decoder.model.linear.rounding import rounded
from tests.support.tiny_models import tiny_model


@pytest.fixture(params=["fastest", "readable"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product of this processor, and the one that every processor has."""
    if request.param == "readable":
        monkeypatch.setattr(int8_linear, "product_class", lambda columns: TorchProduct)


def layer(out: int, columns: int, dtype: torch.dtype) -> Int8Linear:
    source = torch.Generator().manual_seed(out + columns)
    weight, bias = torch.randn(out, columns, generator=source), torch.randn(out, generator=source)
    return Int8Linear(weight, bias, dtype)


def test_rotated_weights_are_rounded_to_the_nearest_multiple_of_their_rows_scale() -> None:
    weight = torch.randn(40, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 3, 40)[:, None]
    weight[7] = 0
    integers, scale = quantised(weight)
    assert integers.dtype is torch.int8
    assert integers.abs().max() == 127
    assert torch.equal(scale, scale.bfloat16().float()), "a scale is exact in every format of activations"
    assert torch.equal(scale[7], torch.tensor(1.0))
    assert not integers[7].any()
    turned = rotated(weight)
    away = (integers * scale[:, None] - turned).abs()
    most = turned.abs().amax(1)
    assert (away <= 0.5 * scale[:, None] * 1.0001 + (most - 127 * scale).clamp_min(0)[:, None]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("out", "columns"), [(61, 32), (256, 512), (1, 64), (7, 23)])
def test_sums_of_integers_are_exact_and_rounded_once(out: int, columns: int, dtype: torch.dtype) -> None:
    made = layer(out, columns, dtype)
    for count in (1, 3, 8, 33):
        inputs = torch.randn(count, columns, generator=torch.Generator().manual_seed(count)).to(dtype)
        integers, steps = rounded(inputs)
        exact = (integers.double() - 128) @ made.integers.double().T
        assert exact.abs().max() < 2**24
        wanted = exact.float() * made.scale * steps[:, None] + made.bias.float()
        assert torch.equal(made(inputs[None])[0], wanted.to(dtype))


@pytest.mark.parametrize("columns", [700, 704, 1536])
def test_a_rows_product_has_the_same_bits_in_any_company(columns: int) -> None:
    made = layer(130, columns, torch.bfloat16)
    inputs = torch.randn(40, columns, generator=torch.Generator().manual_seed(3)).bfloat16()
    inputs[5] *= 1000
    whole = made(inputs)
    for numbers in ([0], [5], [39], [5, 4], [7, 7, 7], [*range(20, 40)], [*range(39, -1, -1)]):
        assert torch.equal(made(inputs[numbers]), whole[numbers])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(made(inputs), whole)
    finally:
        torch.set_num_threads(threads)


def test_a_layer_is_as_near_to_its_weights_as_its_rows_are_to_their_integers() -> None:
    made = layer(128, 2048, torch.bfloat16)
    inputs = torch.randn(16, 2048, generator=torch.Generator().manual_seed(3)).bfloat16()
    turned, held = rotated(made.integers * made.scale[:, None]).double(), rotated(inputs).double()
    exact = inputs.double() @ turned.T + made.bias.double()
    integers, steps = rounded(inputs)
    share = ((integers.double() - 128) * steps[:, None] - held).norm() / held.norm()
    assert 0.001 < share < 0.01, "somewhat less than a hundredth of a row is lost"
    assert (made(inputs).double() - exact).norm() < 1.2 * share * exact.norm()


def test_a_large_number_in_a_row_does_not_cost_the_others() -> None:
    """Without the rotation, steps are 40 times as coarse, and the product is wrong by a tenth."""
    made = layer(128, 2048, torch.bfloat16)
    inputs = torch.randn(16, 2048, generator=torch.Generator().manual_seed(3)).bfloat16()
    inputs[:, 77] = 150.0
    away = (made(inputs).double() - inputs.double() @ made.weight.double().T - made.bias.double()).norm()
    exact = (inputs.double() @ made.weight.double().T).norm()
    assert away < 0.02 * exact


def test_what_is_not_finite_stays_so() -> None:
    made = layer(8, 32, torch.bfloat16)
    inputs = torch.ones(3, 32).bfloat16()
    alone = made(inputs[:1])
    inputs[1, 3], inputs[2, 4] = float("nan"), float("inf")
    product = made(inputs)
    assert torch.equal(product[:1], alone)
    assert not product[1:].isfinite().any()


def test_a_model_keeps_integers_instead_of_its_weights() -> None:
    model = tiny_model("qwen2").to(torch.float32)
    original = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert not formats_of(model)
    quantise(model)
    left = dict(model.named_parameters())
    assert formats_of(model) == {"int8"}
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
    assert torch.equal(model.lm_head.weight, rotated(integers * scale[:, None]))


def test_rows_of_a_layer_are_its_rows() -> None:
    made, numbers = layer(20, 32, torch.bfloat16), torch.tensor([3, 7, 19])
    assert torch.equal(rows_of(made, numbers), made.weight[numbers])
    inputs = torch.randn(2, 32, generator=torch.Generator().manual_seed(5)).bfloat16()
    assert torch.equal(made.rows(numbers)(inputs), made(inputs)[:, numbers])
    stock = torch.nn.Linear(4, 6)
    assert torch.equal(rows_of(stock, torch.tensor([5, 0])), stock.weight[[5, 0]])


def test_gradients_pass_through() -> None:
    made = layer(8, 32, torch.float32)
    inputs = torch.randn(3, 32, generator=torch.Generator().manual_seed(5), requires_grad=True)
    made(inputs).sum().backward()
    assert inputs.grad is not None
    torch.testing.assert_close(inputs.grad, made.weight.sum(0).expand(3, -1))
