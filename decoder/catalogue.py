"""What is known about models before one is downloaded: size, licence, memory, and whether it is a toy.

The data is `catalogue.json`: "named" models, which `rag models pull` knows by name, and models of the "hub" that are
worth a try: target models, embedding models and rerankers. Loads no torch; where the named models' files come from is
in `decoder.models`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

DEFAULT_MODEL = "qwen2.5-coder-1.5b"
"""The target model that is used if none is set."""

DEFAULT_EMBEDDING_MODEL = "all-minilm-l6-v2"

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
PROGRAM_BYTES = 500_000_000
"""What a worker takes besides weights: Python, torch, the tokenizer. Measured with the named models, as in
`ModelCard.serving_bytes`: 4.5 and 2.6 GB for 0.5B in float32 and bfloat16, 12.9 and 6.7 GB for 1.5B."""


@dataclass(frozen=True)
class ModelCard:
    """What is known about a model.

    Attributes:
        id: the name or hub id that users type.
        title: the name that its makers gave it.
        kind: "target", "embedding" or "reranker".
        parameters: number of weights; a matrix that is input and output embedding counts once.
        licence: the weights' licence.
        architecture: `model_type` of its config.json.
        note: one line on what it is good for.
        disk_bytes: approximate size of its folder; None if unknown.
        toy: whether it is for tests only.
        languages: those that an embedding model or a reranker reads.
        query_prefix, passage_prefix: what an embedding model wants before each question and each passage; None: what
            its folder says, if anything.
    """

    id: str
    title: str
    kind: Literal["target", "embedding", "reranker"]
    parameters: int
    licence: str
    architecture: str
    note: str
    disk_bytes: int | None = None
    toy: bool = False
    languages: str = ""
    query_prefix: str | None = None
    passage_prefix: str | None = None

    def weights_bytes(self, dtype: str) -> int:
        """Bytes of the weights in memory."""
        return self.parameters * BYTES[dtype]

    def serving_bytes(self, dtype: str) -> int:
        """Bytes that a worker takes on a CPU with enough memory: the weights, their packed copy, and the program."""
        return 2 * self.weights_bytes(dtype) + PROGRAM_BYTES


@cache
def named() -> dict[str, ModelCard]:
    """The models known by name."""
    return _read("named")


@cache
def on_the_hub() -> dict[str, ModelCard]:
    """Models of the hub that the engine or the retriever supports, by hub id."""
    return _read("hub")


def card_of(model: str) -> ModelCard | None:
    """The card of a name or a hub id, with or without `@revision`; None for any other model."""
    return named().get(model) or on_the_hub().get(model.partition("@")[0])


def _read(group: str) -> dict[str, ModelCard]:
    data = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    return {entry["id"]: ModelCard(**entry) for entry in data[group]}
