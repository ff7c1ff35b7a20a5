"""What is known about models before one is downloaded: size, licence, memory, and whether it is a toy.

The data is `catalogue.json`: "named" models, which `rag models pull` knows by name, and models of the "hub" that are
worth a try. Loads no torch; where the named models' files come from is in `decoder.models`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

DEFAULT_MODEL = "smollm2-135m"
"""The target model that is used if none is set."""

DEFAULT_EMBEDDING_MODEL = "all-minilm-l6-v2"

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class ModelCard:
    """What is known about a model.

    Attributes:
        id: the name or hub id that users type.
        title: the name that its makers gave it.
        kind: "target" or "embedding".
        parameters: number of weights; a matrix that is input and output embedding counts once.
        licence: the weights' licence.
        architecture: `model_type` of its config.json.
        note: one line on what it is good for.
        disk_bytes: approximate size of its folder.
        toy: whether it is for tests only.
    """

    id: str
    title: str
    kind: Literal["target", "embedding"]
    parameters: int
    licence: str
    architecture: str
    note: str
    disk_bytes: int
    toy: bool = False

    def memory(self, dtype: str) -> int:
        """Bytes of the weights in memory. On a CPU, a packed copy may be added."""
        return self.parameters * BYTES[dtype]


@cache
def named() -> dict[str, ModelCard]:
    """The models known by name."""
    return _read("named")


@cache
def on_the_hub() -> dict[str, ModelCard]:
    """Models of the hub that the engine supports, by hub id."""
    return _read("hub")


def card_of(model: str) -> ModelCard | None:
    """The card of a name or a hub id, with or without `@revision`; None for any other model."""
    return named().get(model) or on_the_hub().get(model.partition("@")[0])


def _read(group: str) -> dict[str, ModelCard]:
    data = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    return {entry["id"]: ModelCard(**entry) for entry in data[group]}
