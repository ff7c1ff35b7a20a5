"""The target's features and best probabilities on its answers, computed on first use and cached on disk.

Answers are grouped into shards of about `SHARD` tokens. A shard's file is named by a hash of its inputs, so another run
on the same model and data reuses it. Once the files take the most space allowed, further shards are computed on each
use. The sequences of a shard run through the target packed in one line, without padding.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from decoder.model.fingerprint import fingerprint
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.pass_parts import PromptChunk
from decoder.model.target import TargetModel
from decoder.training.answers import Answer, grouped

BEST = 16
"""Probabilities stored per position."""
SHARD = 16384
"""Approximate tokens of a shard."""
_PASS = {"cpu": 2048, "cuda": 16384}
_HEAD_ROWS = {"cpu": 256, "cuda": 4096}
_LARGEST = 65504.0
_HEADER = 1024
"""Most bytes of a shard's file besides its tensors."""


@dataclass(frozen=True, slots=True)
class Example:
    """One answer of n tokens, p of them the prompt.

    Attributes:
        tokens: int64 [n].
        prompt: p.
        features: float16 [n - 1, D], the output of the target's final norm at positions 0 to n - 2.
        best_ids: int32 [n - 1 - p, BEST], the likeliest tokens after positions p to n - 2.
        chances: float16 [n - 1 - p, BEST], their probabilities.
    """

    tokens: torch.Tensor
    prompt: int
    features: torch.Tensor
    best_ids: torch.Tensor
    chances: torch.Tensor

    @property
    def positions(self) -> int:
        """Positions whose next token is predicted."""
        return len(self.tokens) - 1 - self.prompt


def shards_of(answers: Sequence[Answer], seed: int, size: int = SHARD) -> list[list[Answer]]:
    """Answers in shuffled order, in shards of about `size` tokens."""
    order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed)).tolist()
    return grouped([answers[number] for number in order], len, size)


class FeatureStore:
    """Examples of shards.

    Args:
        folder: of the shards' files.
        most_bytes: most disk space of the files.

    Attributes:
        computed: tokens that this run passed through the target.
        seconds: duration of these passes.
    """

    def __init__(self, target: TargetModel, folder: Path, most_bytes: float) -> None:
        self._target = target
        self._folder = folder
        self._most_bytes = most_bytes
        self._facts = f"{fingerprint(target)} {target.dtype} {BEST}".encode()
        folder.mkdir(parents=True, exist_ok=True)
        for partial in folder.glob(".*.safetensors"):  # of a killed run
            partial.unlink()
        self.computed = 0
        self.seconds = 0.0

    def examples(self, shard: Sequence[Answer]) -> list[Example]:
        """The examples of a shard, in order, on the CPU."""
        from safetensors.torch import load_file, save_file

        digest = hashlib.sha256(self._facts)
        for answer in shard:
            digest.update(answer.prompt.to_bytes(4, "big") + answer.tokens.tobytes())
        path = self._folder / f"{digest.hexdigest()[:24]}.safetensors"
        if path.is_file():
            return _cut(load_file(path), shard)
        started = time.perf_counter()
        tensors = self._compute(shard)
        self.seconds += time.perf_counter() - started
        self.computed += sum(len(answer) for answer in shard)
        size = _HEADER + sum(tensor.nbytes for tensor in tensors.values())
        if self.stored_bytes() + size <= self._most_bytes:
            temporary = self._folder / f".{path.name}"
            save_file(tensors, temporary)
            temporary.replace(path)
        return _cut(tensors, shard)

    def stored_bytes(self) -> int:
        """Disk space of the shards."""
        return sum(path.stat().st_size for path in self._folder.glob("*.safetensors"))

    @torch.inference_mode()
    def _compute(self, shard: Sequence[Answer]) -> dict[str, torch.Tensor]:
        """`features` [rows, D], `best_ids` and `chances` [positions, BEST] of all answers, one after the other."""
        passes = [self._pass(batch) for batch in grouped(shard, len, _PASS[self._target.device.type])]
        return {name: torch.cat([tensors[name] for tensors in passes]) for name in passes[0]}

    def _pass(self, batch: Sequence[Answer]) -> dict[str, torch.Tensor]:
        chunks = []
        for answer in batch:
            ids = answer.tokens[:-1].tolist()
            chunks.append(PromptChunk(self._target.new_cache(len(ids)), ids, RequiredOutputs(features=True)))
        features = [outputs.features for outputs in self._target.forward_tree(chunks) if outputs.features is not None]
        rows = torch.cat([states[answer.prompt :] for answer, states in zip(batch, features, strict=True)])
        head, ids_parts, chance_parts = self._target.model.get_output_embeddings(), [], []
        for part in torch.split(rows, _HEAD_ROWS[self._target.device.type]):
            chances, ids = head(part).float().softmax(-1).topk(min(BEST, self._target.vocab_size))
            ids_parts.append(ids.to("cpu", torch.int32))
            chance_parts.append(chances.to("cpu", torch.float16))
        stored = torch.cat(features).clamp(-_LARGEST, _LARGEST).to("cpu", torch.float16)
        return {"features": stored, "best_ids": torch.cat(ids_parts), "chances": torch.cat(chance_parts)}


def _cut(tensors: dict[str, torch.Tensor], shard: Sequence[Answer]) -> list[Example]:
    """The tensors of a shard, cut into examples."""
    examples, row, position = [], 0, 0
    for answer in shard:
        rows, positions = len(answer) - 1, len(answer) - 1 - answer.prompt
        examples.append(
            Example(
                torch.from_numpy(answer.tokens).long(),
                answer.prompt,
                tensors["features"][row : row + rows],
                tensors["best_ids"][position : position + positions],
                tensors["chances"][position : position + positions],
            )
        )
        row, position = row + rows, position + positions
    return examples
