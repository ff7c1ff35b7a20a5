"""Small encoders with random weights, always the same: an embedding model and a cross-encoder, saved to a folder."""

from __future__ import annotations

from pathlib import Path

import torch

WORDS = ("the", "red", "fox", "blue", "whale", "sings", "at", "night", "query", "passage", ":")
WINDOW = 64


def _config(labels: int = 1) -> object:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=WINDOW, num_labels=labels,
    )  # fmt: skip


def _tokenizer(folder: Path) -> None:
    from transformers import BertTokenizerFast

    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    BertTokenizerFast(vocab=vocabulary, model_max_length=WINDOW).save_pretrained(folder)


def tiny_embedder(folder: Path, prompts: dict[str, str] | None = None) -> Path:
    """A sentence-transformers model that knows `WORDS`, in `folder/model`. `prompts`: of its configuration."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertModel

    bert = folder / "bert"
    bert.mkdir(parents=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(_config()).save_pretrained(bert)
    _tokenizer(bert)
    transformer = Transformer(str(bert), max_seq_length=WINDOW)
    model = SentenceTransformer(modules=[transformer, Pooling(32), Normalize()], device="cpu", prompts=prompts)
    model.save(str(folder / "model"))
    return folder / "model"


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A cross-encoder that knows `WORDS`, in `folder`."""
    from transformers import BertForSequenceClassification

    folder.mkdir(parents=True)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        BertForSequenceClassification(_config(labels)).save_pretrained(folder)
    _tokenizer(folder)
    return folder
