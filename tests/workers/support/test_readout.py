"""The readout: the state of the prompt's last token, whatever rows it begins on, and odds from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from decoder import Engine, SamplingParams
from tests.support.tiny_models import tiny_model, tiny_target
from workers.support.readout import Reader, Readout, shipped

PROMPT = [5, 9, 3, 5, 9, 3, 7, 11, 2, 30]
VOCAB = 61


@pytest.mark.parametrize("layer", [0, 1])
def test_the_state_is_that_of_the_prompts_last_token(layer: int) -> None:
    stock = tiny_model("qwen2", VOCAB)
    with torch.inference_mode():
        states = stock(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    expected = states[layer + 1][0, -1]
    reader = Reader(layer)
    list(Engine(tiny_target("qwen2", VOCAB)).generate(PROMPT, SamplingParams(max_tokens=3), drafter=reader))
    assert reader.state is not None
    if layer == 0:  # transformers gives the last layer's output after the final norm
        np.testing.assert_allclose(reader.state, expected.numpy(), rtol=0, atol=1e-6)
    else:
        normed = stock.model.norm(torch.from_numpy(reader.state).double())
        np.testing.assert_allclose(normed.detach().numpy(), expected.numpy(), rtol=0, atol=1e-5)


def test_the_state_is_the_same_on_the_rows_of_an_earlier_answer() -> None:
    engine = Engine(tiny_target("qwen2", VOCAB))
    first = Reader(1)
    list(engine.generate(PROMPT, SamplingParams(max_tokens=4), drafter=first))
    earlier = engine.start(PROMPT, SamplingParams(max_tokens=4, ignore_eos=True), drafter="plain", keep=True)
    engine.prefill(earlier)
    while not earlier.finished:
        engine.step([earlier])
    again = Reader(1)
    prefix = earlier.detach_prefix()
    reused = engine.start(PROMPT, SamplingParams(max_tokens=1), drafter=again, reuse=prefix)
    engine.prefill(reused)
    assert reused.stats.cached_tokens == len(PROMPT) - 1
    assert first.state is not None
    assert again.state is not None
    np.testing.assert_allclose(again.state, first.state, rtol=0, atol=1e-6)


def test_odds_are_linear_in_the_state() -> None:
    readout = Readout(0, np.array([1.0, -2.0], dtype=np.float32), 0.5)
    assert readout.odds(np.array([3.0, 1.0], dtype=np.float32)) == pytest.approx(1.5)


def test_the_shipped_readouts_fit_the_models_that_they_name() -> None:
    catalogue = json.loads((Path(__file__).parents[3] / "decoder/catalogue.json").read_text(encoding="utf-8"))
    names = json.dumps(catalogue)
    assert shipped()
    for model, readout in shipped().items():
        assert f'"{model}"' in names
        assert readout.weights.dtype == np.float32
        assert readout.weights.ndim == 1
        assert np.isfinite(readout.weights).all()
