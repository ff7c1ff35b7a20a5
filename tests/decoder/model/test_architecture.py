"""Which models are taken: those whose passes give what the stock model gives, whatever else the pass holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

from decoder import Engine, SamplingParams, UnsupportedModel
from decoder.errors import PromptTooLong
from decoder.model.architecture import check, compare, positions, trial_text
from decoder.model.target import TargetModel
from rag_service.answering.models import window_of
from tests.support.tiny_models import ARCHITECTURES, AdversarialDrafter, tiny_model

SMALL = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "initializer_range": 0.4,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [1.5, 3.0, 4.0, 6.0],
    "original_max_position_embeddings": 40,
    "factor": 2.4,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}


def stock(name: str, dtype: torch.dtype = torch.float64, **more: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(getattr(transformers, name)(**{**SMALL, **more}), dtype=dtype)


def test_sliding_windows_are_refused_by_their_configuration() -> None:
    with pytest.raises(UnsupportedModel, match="sliding window"):
        check(MistralConfig(sliding_window=16, max_position_embeddings=64))


@pytest.mark.parametrize("name", ["DiffLlamaConfig", "StableLmConfig", "GPT2Config"])
def test_models_whose_passes_go_wrong_are_refused_when_they_are_loaded(name: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"trees of tokens.*choose a model"):
        TargetModel(stock(name))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_models_that_run_are_taken_in_every_dtype(architecture: str, dtype: torch.dtype) -> None:
    target = TargetModel(tiny_model(architecture).to(dtype))
    assert TargetModel(target.model).dtype == dtype  # once more: set up already, so not tried again


@pytest.mark.parametrize("window", [1, 3, 4, 5, 8])
def test_short_windows_are_tried_with_what_fits(window: int) -> None:
    assert TargetModel(tiny_model(window=window)).max_positions == window


def test_the_trial_sees_wrong_attention_in_low_precision_too() -> None:
    logits = torch.randn(4, 61, generator=torch.Generator().manual_seed(0)).bfloat16()
    compare(logits + 0.05 * torch.randn(4, 61, generator=torch.Generator().manual_seed(1)), logits, "fine")
    with pytest.raises(UnsupportedModel, match="logits"):
        compare(logits.roll(1, dims=0), logits, "shifted")
    assert len(set(trial_text(LlamaConfig(vocab_size=97)))) == 6


@pytest.mark.parametrize(("rope", "window"), [(LONGROPE, 40), (DYNAMIC, 96)])
def test_rotations_that_go_by_the_whole_pass_stay_within_their_window(rope: dict[str, Any], window: int) -> None:
    """Drafts up to the window's end, and a longer answer in the same passes, change no token."""
    engine = Engine(TargetModel(stock("LlamaConfig", rope_parameters=rope)), "plain")
    assert engine.target.max_positions == window
    params = SamplingParams(max_tokens=window - 25, ignore_eos=True)
    for seed in range(6):
        prompt = [3 + 7 * place * (seed + 1) % 50 for place in range(25)]
        plain = [token for step in engine.generate(prompt, params) for token in step.tokens]
        mine = engine.start(prompt, params, drafter=AdversarialDrafter(plain, 61, seed))
        other = engine.start([5] * (window - 4), SamplingParams(max_tokens=4, ignore_eos=True))
        while running := [sequence for sequence in (mine, other) if not sequence.finished]:
            engine.step(running)
        assert mine.tokens == plain
    with pytest.raises(PromptTooLong):
        engine.start([5] * window, SamplingParams(max_tokens=1))


@pytest.mark.parametrize(
    "config",
    [
        {"max_position_embeddings": 96},
        {"max_position_embeddings": 96, "rope_parameters": LONGROPE},
        {"max_position_embeddings": 96, "rope_parameters": DYNAMIC},
        {
            "max_position_embeddings": 96,
            "original_max_position_embeddings": 40,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
        },
    ],
)
def test_the_service_knows_the_window_without_loading_the_model(config: dict[str, Any], tmp_path: Path) -> None:
    kind = transformers.Phi3Config if "longrope" in str(config) else LlamaConfig
    made = kind(**{**SMALL, **config})
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert window_of(tmp_path) == positions(made)
