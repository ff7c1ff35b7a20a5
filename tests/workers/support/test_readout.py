"""The readout: the state of the prompt's last token, whatever rows it begins on, and odds from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoder import Engine, Generation, SamplingParams
from tests.support.tiny_models import tiny_model, tiny_target
from workers.support.readout import Readout, shipped

PROMPT = [5, 9, 3, 5, 9, 3, 7, 11, 2, 30]
VOCAB = 61


@pytest.mark.parametrize("drafter", ["plain", "auto", "pld_plus"])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_state_is_that_of_the_prompts_last_token(layer: int, drafter: str) -> None:
    stock = tiny_model("qwen2", VOCAB)
    with torch.inference_mode():
        states = stock(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    expected = states[layer + 1][0, -1]
    sequence = start(Engine(tiny_target("qwen2", VOCAB)), drafter=drafter, read=frozenset({layer}))
    (state,) = sequence.states.values()
    if layer == 0:  # transformers gives the last layer's output after the final norm
        torch.testing.assert_close(state, expected.to(state.dtype), rtol=0, atol=1e-6)
    else:
        normed = stock.model.norm(state.to(expected.dtype))
        torch.testing.assert_close(normed.detach(), expected, rtol=0, atol=1e-5)


def test_the_state_is_the_same_on_the_rows_of_an_earlier_answer() -> None:
    engine = Engine(tiny_target("qwen2", VOCAB))
    first = start(engine, read=frozenset({1}), keep=True)
    while not first.finished:
        engine.step([first])
    again = start(engine, read=frozenset({1}), reuse=first.detach_prefix())
    assert again.stats.cached_tokens == len(PROMPT) - 1
    torch.testing.assert_close(again.states[1], first.states[1], rtol=0, atol=1e-6)


def test_nothing_is_read_of_an_answer_that_is_resumed() -> None:
    """Its prompt's last token is not the last one that is prefilled."""
    assert start(Engine(tiny_target("qwen2", VOCAB)), read=frozenset({1}), resumed=[4]).states == {}


def test_a_layer_that_the_target_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="layer 7; the target's are 0 to 1"):
        start(Engine(tiny_target("qwen2", VOCAB)), read=frozenset({7}))


def start(engine: Engine, drafter: str = "plain", **options: Any) -> Generation:
    """A sequence whose prompt is prefilled."""
    sequence = engine.start(PROMPT, SamplingParams(max_tokens=4, ignore_eos=True), drafter=drafter, **options)
    engine.prefill(sequence)
    return sequence


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
