"""PassArchive: the outputs of a recording's passes besides their tokens, in a file next to the JSON lines.

`FILE.jsonl` has its archives in the folder `FILE.jsonl.d`, one numpy archive per answer. Knows the format and what
drafters read of it; knows no engine.
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
"""Logits saved per token."""
UNKNOWN = -1e9
"""Logit of every token whose logit was not saved."""


def archive_path(recordings: Path, item_id: str, turn: int) -> Path:
    """The archive of one answer. Ids may contain any character and have any length."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", item_id)[:60]
    digest = hashlib.sha256(item_id.encode()).hexdigest()[:8]
    return recordings.with_name(recordings.name + ".d") / f"{name}-{digest}-turn{turn}.npz"


@dataclass(frozen=True, slots=True)
class PassArchive:
    """Outputs of the passes of an answer of n tokens after a prompt of p.

    Attributes:
        logit_ids, logit_values: int32 and float32 [n, 64], best first; row i is of the row that chose token i. None
            if logits were not saved.
        vocab_size: size of the full logits.
        hidden: layer -> float16 [p + n - 1, D]: the prompt's rows and those of all tokens but the last.
    """

    logit_ids: NDArray[np.int32] | None
    logit_values: NDArray[np.float32] | None
    vocab_size: int
    hidden: Mapping[int, NDArray[np.float16]]

    def save(self, path: Path) -> None:
        """Write the archive. The file appears only after all of it is written."""
        arrays: dict[str, Any] = {"vocab_size": np.asarray(self.vocab_size)}
        if self.logit_ids is not None and self.logit_values is not None:
            arrays |= {"logit_ids": self.logit_ids, "logit_values": self.logit_values}
        arrays |= {f"hidden_{layer}": rows for layer, rows in self.hidden.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path, layers: Iterable[int] = ()) -> PassArchive:
        """Read an archive; of its hidden states, only the given layers."""
        with np.load(path) as archive:
            hidden = {layer: archive[f"hidden_{layer}"] for layer in layers if f"hidden_{layer}" in archive.files}
            ids, values = (
                (archive["logit_ids"], archive["logit_values"]) if "logit_ids" in archive.files else (None, None)
            )
            return cls(ids, values, int(archive["vocab_size"]), hidden)

    def outputs(self, first: int, count: int, chosen: int) -> ForwardOutputs:
        """The outputs that the drafter sees after a step.

        Args:
            first: absolute position of the first row, 0 for a prefill.
            count: rows of the step, one per token (for a prefill, the prompt's rows).
            chosen: index in the answer of the token that the last row chose.
        """
        rows = {layer: torch.from_numpy(states[first : first + count]).float() for layer, states in self.hidden.items()}
        if self.logit_ids is None or self.logit_values is None:
            return RecordedOutputs(rows)
        return RecordedOutputs(rows, self.logit_ids[chosen], self.logit_values[chosen], self.vocab_size)


def archive_contents(path: Path) -> tuple[bool, frozenset[int]]:
    """(whether an archive has logits, layers whose hidden states it has); reads no data."""
    with np.load(path) as archive:
        layers = (name.removeprefix("hidden_") for name in archive.files if name.startswith("hidden_"))
        return "logit_ids" in archive.files, frozenset(map(int, layers))


def check_required(required_outputs: RequiredOutputs, path: Path | None, drafter: str) -> None:
    """Raises BenchError if a recording lacks outputs that a drafter requires."""
    if required_outputs.queries:
        raise BenchError(f"{drafter} reads queries, which recordings do not keep; measure it with `bench decode`")
    if required_outputs.tree_logits:
        raise BenchError(
            f"{drafter} reads the logits of rejected drafts, which recordings lack; measure it with `bench decode`"
        )
    recorded = archive_contents(path)[1] if path else frozenset()
    if missing := sorted(required_outputs.hidden - recorded):
        layers = ",".join(map(str, missing))
        present = f"it keeps those of layer {', '.join(map(str, sorted(recorded)))}" if recorded else "it keeps none"
        raise BenchError(
            f"{drafter} reads the hidden states of layer {layers} and the recording lacks them ({present}); record "
            f"again with --keep-hidden {layers}, or choose one of the recorded layers for the drafter"
        )


class RecordedOutputs(ForwardOutputs):
    """ForwardOutputs whose logits, float32 [1, V], are built when they are first read: most drafters never read them.

    Tokens whose logits were not saved have the logit UNKNOWN. Reading logits of an archive without any raises
    BenchError.
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
        logits = self._logits
        if logits is None:
            ids, values, vocab_size = self._best
            if ids is None or values is None:
                raise BenchError("this drafter reads logits and the recording has none; record with --keep-logits")
            logits = torch.full((1, vocab_size), UNKNOWN)
            logits[0, torch.from_numpy(ids).long()] = torch.from_numpy(values)
            object.__setattr__(self, "_logits", logits)
        return logits
