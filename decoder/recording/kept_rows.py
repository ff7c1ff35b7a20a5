"""Kept: what a recording keeps of the passes besides their tokens, in a file of its own beside the JSON lines.

`FILE.jsonl` has its files in the folder `FILE.jsonl.d`, one numpy archive an answer. Knows the format, and how drafters
want to see it; knows no engine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.recording.prompts import BenchError

BEST = 64
"""Logits kept a token."""
UNKNOWN = -1e9
"""Logit of every token that is not among the kept ones."""


def kept_path(recordings: Path, item_id: str, turn: int) -> Path:
    """Where the archive of one answer lies; ids may hold any character and be of any length."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", item_id)[:60]
    mark = hashlib.sha256(item_id.encode()).hexdigest()[:8]
    return recordings.with_name(recordings.name + ".d") / f"{name}-{mark}-turn{turn}.npz"


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of one answer of n tokens after a prompt of p.

    Attributes:
        logit_ids, logit_values: int32 and float32 [n, 64], best first: row i is of the row that chose token i. None
            where logits were not kept.
        vocab_size: entries the logits had.
        hidden: layer -> float16 [p + n - 1, D], the prompt's rows and those of all tokens but the last.
    """

    logit_ids: NDArray[np.int32] | None
    logit_values: NDArray[np.float32] | None
    vocab_size: int
    hidden: Mapping[int, NDArray[np.float16]]

    def save(self, path: Path) -> None:
        """Write the archive, whole or not at all."""
        arrays: dict[str, Any] = {"vocab_size": np.asarray(self.vocab_size)}
        if self.logit_ids is not None and self.logit_values is not None:
            arrays |= {"logit_ids": self.logit_ids, "logit_values": self.logit_values}
        arrays |= {f"hidden_{layer}": rows for layer, rows in self.hidden.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".new")
        with draft.open("wb") as file:
            np.savez(file, **arrays)
        draft.replace(path)

    @classmethod
    def load(cls, path: Path, layers: Iterable[int] = ()) -> Kept:
        """Read an archive; of the hidden states only those layers that it has of `layers`."""
        with np.load(path) as archive:
            hidden = {layer: archive[f"hidden_{layer}"] for layer in layers if f"hidden_{layer}" in archive.files}
            ids, values = (
                (archive["logit_ids"], archive["logit_values"]) if "logit_ids" in archive.files else (None, None)
            )
            return cls(ids, values, int(archive["vocab_size"]), hidden)

    def outputs(self, first: int, count: int, chosen: int) -> ForwardOutputs:
        """What the drafter sees after a step.

        Args:
            first: absolute position of the first row, 0 for a prefill.
            count: rows of the step, one for each of its tokens (for a prefill, those of the prompt).
            chosen: number in the answer of the token that the last row chose.
        """
        rows = {layer: torch.from_numpy(states[first : first + count]).float() for layer, states in self.hidden.items()}
        if self.logit_ids is None or self.logit_values is None:
            return RecordedOutputs(rows)
        return RecordedOutputs(rows, self.logit_ids[chosen], self.logit_values[chosen], self.vocab_size)


def contents(path: Path) -> tuple[bool, frozenset[int]]:
    """(whether logits were kept, layers whose hidden states were) of an archive; reads no data."""
    with np.load(path) as archive:
        layers = (name.removeprefix("hidden_") for name in archive.files if name.startswith("hidden_"))
        return "logit_ids" in archive.files, frozenset(map(int, layers))


def check_required(required_outputs: RequiredOutputs, path: Path | None, drafter: str) -> None:
    """Raises BenchError where a recording lacks what a drafter's `required_outputs` name."""
    if required_outputs.queries:
        raise BenchError(f"{drafter} reads queries, which recordings do not keep; measure it with `bench decode`")
    has = contents(path)[1] if path else frozenset()
    if missing := sorted(required_outputs.hidden - has):
        named = ",".join(map(str, missing))
        kept = f"it keeps those of layer {', '.join(map(str, sorted(has)))}" if has else "it keeps none"
        raise BenchError(
            f"{drafter} reads the hidden states of layer {named} and the recording lacks them ({kept}); record again "
            f"with --keep-hidden {named}, or choose the drafter's layer among those that are kept"
        )


class RecordedOutputs(ForwardOutputs):
    """ForwardOutputs whose logits, float32 [1, V], are built when they are first read: most drafters never do.

    Tokens beyond the kept ones have the logit UNKNOWN. Reading logits that were not kept raises BenchError.
    """

    __slots__ = ("_best", "_logits")

    _best: tuple[NDArray[np.int32] | None, NDArray[np.float32] | None, int]
    _logits: torch.Tensor | None

    def __init__(
        self,
        hidden: Mapping[int, torch.Tensor],
        ids: NDArray[np.int32] | None = None,
        values: NDArray[np.float32] | None = None,
        vocab_size: int = 0,
    ) -> None:
        best = (ids, values, vocab_size)
        for name, value in (("hidden", hidden), ("queries", {}), ("_best", best), ("_logits", None)):
            object.__setattr__(self, name, value)

    @property
    def has_logits(self) -> bool:
        return self._best[0] is not None

    @property
    def logits(self) -> torch.Tensor:
        built = self._logits
        if built is None:
            ids, values, vocab_size = self._best
            if ids is None or values is None:
                raise BenchError("this drafter reads logits and the recording has none; record with --keep-logits")
            built = torch.full((1, vocab_size), UNKNOWN)
            built[0, torch.from_numpy(ids).long()] = torch.from_numpy(values)
            object.__setattr__(self, "_logits", built)
        return built
