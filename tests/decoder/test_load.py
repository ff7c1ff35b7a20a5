"""`load_engine` from folders: target, draft model, and tokenizers that must be one."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from decoder import SamplingParams, load_engine
from decoder import load as load_module
from decoder.errors import BitwiseUnavailable, DrafterUnavailable
from decoder.load import same_tokens
from decoder.model.linear import tiled_linear
from decoder.model.paths import path_attention
from tests.support.tiny_models import tiny_model

WORDS = {f"w{number}": number for number in range(61)}


def folder_of(path: Path, seed: int, vocabulary: dict[str, int], size: int = 61, hidden: int = 32) -> str:
    """A folder with a tiny model of `size` token ids and a tokenizer of these words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=next(iter(vocabulary))))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(path)
    tiny_model(vocab_size=size, seed=seed, hidden=hidden).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    at = tmp_path_factory.mktemp("models")
    swapped = {word: len(WORDS) - 1 - number for word, number in WORDS.items()}
    return {
        "target": folder_of(at / "target", 0, WORDS),
        "draft": folder_of(at / "draft", 0, WORDS),
        "padded": folder_of(at / "padded", 1, WORDS, 64),
        "other": folder_of(at / "other", 0, swapped),
    }


def test_a_draft_model_is_loaded_beside_the_target(folders: dict[str, str]) -> None:
    load = functools.partial(load_engine, folders["target"], drafter="plain", dtype="float64")
    engine = load(draft_model=folders["draft"])
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    sequences = [engine.start([5, 6, 7], params, drafter=name) for name in ("plain", "small_model")]
    for sequence in sequences:
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
    plain, drafted = sequences
    assert drafted.tokens == plain.tokens
    assert drafted.stats.accepted == drafted.stats.drafted > 10, "the same weights agree"
    assert load(draft_model=folders["padded"]).context.draft_model is not None
    with pytest.raises(DrafterUnavailable, match="draft_model"):
        load().start([5], drafter="small_model")


def test_a_draft_model_of_another_tokenizer_is_refused(folders: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="different tokenizers; choose a draft model of the target's family"):
        load_engine(folders["target"], drafter="plain", draft_model=folders["other"])
    with pytest.raises(ValueError, match="nowhere"):
        load_engine(folders["target"], drafter="plain", draft_model="nowhere")


def test_added_tokens_may_differ() -> None:
    words = {f"w{number}": number for number in range(1000)}
    assert same_tokens(words, {**words, "<fim>": 1000, "<repo>": 1001})
    assert same_tokens({**words, "<fim>": 1000}, words)
    assert not same_tokens(words, {word: number + 1 for word, number in words.items()})
    assert not same_tokens(words, {word: number for word, number in words.items() if number < 900})


def test_an_exact_engine_is_checked_when_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder.model.linear.packed_linear.free_bytes", lambda: 1 << 40)
    folder = folder_of(tmp_path / "wide", 0, WORDS, hidden=256)
    load = functools.partial(load_engine, folder, drafter="plain", dtype="float32")
    assert load(exact="bitwise").target.bitwise
    assert not load(exact="default").target.bitwise
    monkeypatch.setattr("decoder.model.bitwise_check.holds", lambda target: False)
    with pytest.raises(BitwiseUnavailable, match="leave exact at its default"):
        load(exact="bitwise")
    with pytest.raises(ValueError, match="exact must be one of auto, default, bitwise, got 'strict'"):
        load(exact="strict")  # type: ignore[arg-type]


def test_passes_are_bitwise_where_that_costs_nothing_and_the_check_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = folder_of(tmp_path / "wide", 0, WORDS, hidden=256)
    load = functools.partial(load_engine, folder, drafter="plain", dtype="int8")
    heads_fit = path_attention.available(torch.bfloat16, 64) and not path_attention.has_matrix_units()
    assert load().target.bitwise == heads_fit
    monkeypatch.setattr(path_attention, "available", lambda dtype, dim: True)
    monkeypatch.setattr(path_attention, "has_matrix_units", lambda: True)
    assert not load().target.bitwise, "prompts would lose them"
    monkeypatch.setattr(path_attention, "has_matrix_units", lambda: False)
    monkeypatch.setattr(load_module.bitwise_check, "holds", lambda target: False)
    assert not load().target.bitwise
    assert "exact up to rounding only" in caplog.text
    monkeypatch.setattr(tiled_linear, "available", lambda dtype: False)
    assert not load(dtype="float32").target.bitwise, "a library's products would be of other kernels"
