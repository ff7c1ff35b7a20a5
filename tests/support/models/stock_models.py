"""Tiny models of transformers' own classes in bfloat16, with heads as wide as machine code takes, and random trees."""

from __future__ import annotations

import random
from typing import Any

import torch
import transformers

from decoder.drafts.tree import ROOT, DraftTree, TokenSource

VOCAB = 61
SIZES = {
    **{"vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "head_dim": 32},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0},
    **{"initializer_range": 0.4},
}


def stock_model(form: str = "LlamaConfig", **options: Any) -> Any:
    """A randomly initialised model, the same each time, of a class of configurations and its options."""
    config = getattr(transformers, form)(**(SIZES | options))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def random_tree(source: random.Random, nodes: int) -> DraftTree:
    tree = DraftTree()
    while len(tree) < nodes:
        tree.add(source.randrange(VOCAB), source.randint(ROOT, len(tree) - 1), TokenSource("test"))
    return tree
