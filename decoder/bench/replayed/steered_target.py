"""SteeredTarget: a target of any weights that chooses the tokens of recorded answers.

Its passes are real, and so are drafting, selection, batching and caches; only the logits are written over, with the
recorded best ones of each token. So times are those of the shape, and accepted drafts are those of the recorded model,
as far as drafters do not read hidden states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from decoder.drafts.tree import ROOT
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.pass_parts import PromptChunk, TreePass
from decoder.model.target import TargetModel
from decoder.recording.pass_archive import PassArchive
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording

ABOVE = 24.0
"""Added to recorded logits, so that they are above all random ones."""


class SteeredTarget(TargetModel):
    """Arguments as `TargetModel`. `steer` says which answer a cache shall hold."""

    def __init__(self, model: Any, **options: Any) -> None:
        self._answers: dict[KVCache, _Answer] = {}
        super().__init__(model, **options)

    def steer(self, cache: KVCache, recording: Recording) -> None:
        """Choose a recording's tokens for a cache from now on."""
        self._answers[cache] = _Answer(recording)

    def forget(self, cache: KVCache) -> None:
        """Choose freely again."""
        self._answers.pop(cache, None)

    def check(self, cache: KVCache, tokens: Sequence[int]) -> None:
        """Raises BenchError if an answer is not the recorded one."""
        if list(tokens) != self._answers[cache].tokens:
            raise BenchError("an answer is not the recorded one; this is a bug of the replay")

    @torch.inference_mode()
    def forward_tree(self, batch: Sequence[TreePass | PromptChunk]) -> list[ForwardOutputs]:
        results = super().forward_tree(batch)
        rows: list[int] = []
        ids, values = [], []
        start = 0
        for part, outputs in zip(batch, results, strict=True):
            answer = self._answers.get(part.cache)
            if answer is not None:
                for row, position in _path(part, answer):
                    tokens, logits = answer.best(position)
                    rows += [start + row] * len(tokens)
                    ids.append(tokens)
                    values.append(logits)
            start += len(outputs.logits)
        if rows:
            first = results[0].logits
            whole = first.as_strided((start, first.shape[1]), (first.shape[1], 1))  # they are parts of one tensor
            index = torch.from_numpy(np.stack([np.asarray(rows), np.concatenate(ids)])).to(self.device)
            whole[index[0], index[1]] = torch.from_numpy(np.concatenate(values)).to(self.device, whole.dtype)
        return results


class _Answer:
    """A recorded answer and the best logits of each of its tokens."""

    def __init__(self, recording: Recording) -> None:
        self.prompt = len(recording.prompt_ids)
        self.tokens = recording.output_ids
        archive = None if recording.archive is None else PassArchive.load(recording.archive)
        self._ids = None if archive is None else archive.logit_ids
        self._logits = None if archive is None else archive.logit_values

    def best(self, index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Ids and logits of the best tokens for the answer's token `index`; the recorded one is the best."""
        token = self.tokens[index]
        if self._ids is None or self._logits is None:
            return np.asarray([token]), np.asarray([ABOVE], np.float32)
        ids, logits = self._ids[index].astype(np.int64), self._logits[index] + ABOVE
        others = ids != token
        best = float(logits[0]) + 1.0
        return np.append(ids[others], token), np.append(logits[others], np.float32(best))


def _path(part: TreePass | PromptChunk, answer: _Answer) -> list[tuple[int, int]]:
    """(row among those with logits, index of the token that it chooses) for each row that follows the answer."""
    base = part.cache.length
    if isinstance(part, PromptChunk):
        index = base + len(part.ids) - answer.prompt
        return [(0, index)] if 0 <= index < len(answer.tokens) else []
    index = base + 1 - answer.prompt
    found: list[tuple[int, int]] = []
    node: int | None = ROOT
    while node is not None and index < len(answer.tokens):
        found.append((node + 1, index))
        node = part.tree.child(node, answer.tokens[index])
        index += 1
    return found
