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

import numpy as np
from numpy.typing import NDArray


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
