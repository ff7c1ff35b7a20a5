"""The target's features and best probabilities on its answers, computed when first asked for and kept on disk.

Answers are put into shards of about `SHARD` tokens. A shard's file is named by what it was computed from, so another
run on the same model and data finds it; beyond the space allowed shards are computed anew each time. Sequences of a
shard run through the target packed in one line, without padding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from decoder.model.fingerprint import fingerprint
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.target import PromptChunk, TargetModel
from decoder.training.answers import Answer

BEST = 16
"""Probabilities kept a position."""
SHARD = 16384
"""Tokens of a shard, about."""
_PASS = {"cpu": 2048, "cuda": 16384}
_HEAD_ROWS = {"cpu": 256, "cuda": 4096}
_LARGEST = 65504.0
_HEADER = 1024
"""Bytes of a shard's file besides its tensors, at most."""


@dataclass(frozen=True, slots=True)
class Example:
    """One answer of n tokens, p of them the prompt.

    Attributes:
        tokens: int64 [n].
        prompt: p.
        features: float16 [n - 1, D], of positions 0 to n - 2: the target's final norm's output.
        best_ids: int32 [n - 1 - p, BEST], the likeliest tokens behind positions p to n - 2.
        chances: float16 [n - 1 - p, BEST], their probabilities.
    """

    tokens: torch.Tensor
    prompt: int
    features: torch.Tensor
    best_ids: torch.Tensor
    chances: torch.Tensor

    @property
    def positions(self) -> int:
        """Positions behind which a token is predicted."""
        return len(self.tokens) - 1 - self.prompt


def shards_of(answers: Sequence[Answer], seed: int, size: int = SHARD) -> list[list[Answer]]:
    """Answers in shuffled order, in shards of about `size` tokens."""
    order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed)).tolist()
    shards: list[list[Answer]] = [[]]
    tokens = 0
    for number in order:
        if tokens and tokens + len(answers[number]) > size:
            shards.append([])
            tokens = 0
        shards[-1].append(answers[number])
        tokens += len(answers[number])
    return shards


class FeatureStore:
    """Examples of shards.

    Args:
        folder: where shards are kept.
        most_bytes: disk space they may take.

    Attributes:
        computed: tokens that went through the target in this run.
        seconds: what that took.
    """

    def __init__(self, target: TargetModel, folder: Path, most_bytes: float) -> None:
        self._target = target
        self._folder = folder
        self._most_bytes = most_bytes
        self._facts = f"{fingerprint(target)} {target.dtype} {BEST}".encode()
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*.safetensors"):  # of a run that was killed
            left.unlink()
        self.computed = 0
        self.seconds = 0.0

    def examples(self, shard: Sequence[Answer]) -> list[Example]:
        """Of a shard, in order, on the CPU."""
        import time

        from safetensors.torch import load_file, save_file

        digest = hashlib.sha256(self._facts)
        for answer in shard:
            digest.update(answer.prompt.to_bytes(4, "big") + answer.tokens.tobytes())
        path = self._folder / f"{digest.hexdigest()[:24]}.safetensors"
        if path.is_file():
            return _cut(load_file(path), shard)
        started = time.perf_counter()
        made = self._compute(shard)
        self.seconds += time.perf_counter() - started
        self.computed += sum(len(answer) for answer in shard)
        size = _HEADER + sum(tensor.nbytes for tensor in made.values())
        if self.stored_bytes() + size <= self._most_bytes:
            temporary = self._folder / f".{path.name}"
            save_file(made, temporary)
            temporary.replace(path)
        return _cut(made, shard)

    def stored_bytes(self) -> int:
        """Disk space the shards take."""
        return sum(path.stat().st_size for path in self._folder.glob("*.safetensors"))

    @torch.inference_mode()
    def _compute(self, shard: Sequence[Answer]) -> dict[str, torch.Tensor]:
        """`features` [rows, D], `best_ids` and `chances` [positions, BEST] of all answers, one after the other."""
        most = _PASS[self._target.device.type]
        parts: dict[str, list[torch.Tensor]] = {"features": [], "best_ids": [], "chances": []}
        batch: list[Answer] = []
        for number, answer in enumerate(shard):
            batch.append(answer)
            following = len(shard[number + 1]) if number + 1 < len(shard) else most
            if sum(map(len, batch)) + following > most:
                for name, tensor in self._pass(batch).items():
                    parts[name].append(tensor)
                batch = []
        return {name: torch.cat(tensors) for name, tensors in parts.items()}

    def _pass(self, batch: Sequence[Answer]) -> dict[str, torch.Tensor]:
        chunks = []
        for answer in batch:
            ids = answer.tokens[:-1].tolist()
            chunks.append(PromptChunk(self._target.new_cache(len(ids)), ids, RequiredOutputs(features=True)))
        features = [made.features for made in self._target.forward_tree(chunks) if made.features is not None]
        rows = torch.cat([states[answer.prompt :] for answer, states in zip(batch, features, strict=True)])
        head, ids_parts, chance_parts = self._target.model.get_output_embeddings(), [], []
        for part in torch.split(rows, _HEAD_ROWS[self._target.device.type]):
            chances, ids = head(part).float().softmax(-1).topk(min(BEST, self._target.vocab_size))
            ids_parts.append(ids.to("cpu", torch.int32))
            chance_parts.append(chances.to("cpu", torch.float16))
        kept = torch.cat(features).clamp(-_LARGEST, _LARGEST).to("cpu", torch.float16)
        return {"features": kept, "best_ids": torch.cat(ids_parts), "chances": torch.cat(chance_parts)}


def _cut(made: dict[str, torch.Tensor], shard: Sequence[Answer]) -> list[Example]:
    examples, row, position = [], 0, 0
    for answer in shard:
        rows, positions = len(answer) - 1, len(answer) - 1 - answer.prompt
        examples.append(
            Example(
                torch.from_numpy(answer.tokens).long(),
                answer.prompt,
                made["features"][row : row + rows],
                made["best_ids"][position : position + positions],
                made["chances"][position : position + positions],
            )
        )
        row, position = row + rows, position + positions
    return examples
