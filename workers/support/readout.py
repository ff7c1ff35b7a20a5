"""Readout: whether the passages answer the question, read from the target's state before it answers.

The state is the output of one decoder layer at the prompt's last token, where the model has read everything and said
nothing. A logistic regression over it was learned (`benchmarks/learn_readout.py`) from questions with passages that
answer them and with passages that do not. Models know this better than they say it (Kadavath et al. 2022, "Language
Models (Mostly) Know What They Know"; Slobodkin et al. 2023, "The Curious Case of Hallucinatory (Un)answerability").

Knows states and files; knows no prompt and no Redis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafters.base import Drafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Readout:
    """Log-odds that the passages answer the question: bias + weights · state.

    Attributes:
        layer: decoder layer (0 is the first) whose output is the state.
        weights: float32 [D].
    """

    layer: int
    weights: NDArray[np.float32]
    bias: float

    def odds(self, state: NDArray[np.float32]) -> float:
        """Log-odds from a state, float32 [D]; natural logarithm."""
        return self.bias + float(self.weights.astype(np.float64) @ state)


class Reader(Drafter):
    """Drafts nothing, and keeps the state of the prompt's last token.

    Args:
        layer: decoder layer to read.
    """

    name: ClassVar[str] = "reader"

    def __init__(self, layer: int) -> None:
        self._layer = layer
        self.required_outputs = RequiredOutputs(last=frozenset({layer}))
        self.state: NDArray[np.float32] | None = None
        """float32 [D], once the prompt is prefilled."""

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return DraftTree()

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if self.state is None:
            self.state = outputs.last[self._layer].to(torch.float32).cpu().numpy()


@cache
def shipped() -> Mapping[str, Readout]:
    """The package's readouts, by model."""
    folder = resources.files("workers.support") / "readouts"
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".npz"):
            with file.open("rb") as opened, np.load(opened) as stored:
                readout = Readout(int(stored["layer"]), stored["weights"], float(stored["bias"]))
            found[file.name.removesuffix(".npz")] = readout
    return found
