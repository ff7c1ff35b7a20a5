"""SharedPrefill: a prompt processed once for all modes that answer it.

All tokens but the last are; a sequence that takes the rows over runs the last one itself, in a pass of one row, so it
chooses its first token and its drafter observes the prompt as they always do. The pass keeps what any of the drafters
needs. A neural drafter's own model is not part of it.

Knows target models and sequences; knows no benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Ids

from decoder.generation import Generation
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.target import TargetModel


class SharedPrefill:
    """The keys, values and artifacts of a prompt.

    Args:
        required_outputs: what sequences' drafters may need, together.

    Attributes:
        seconds: what it took.
    """

    def __init__(self, target: TargetModel, prompt_ids: Ids[int], required_outputs: RequiredOutputs) -> None:
        started = time.perf_counter()
        self._rows = len(prompt_ids) - 1
        self._cache = target.new_cache(self._rows)
        self._needs = required_outputs
        self._outputs = target.prefill(prompt_ids[:-1], self._cache, required_outputs) if self._rows else None
        if self._outputs is not None:
            self._outputs.logits.argmax(-1).tolist()  # waits for the device
        self.seconds = time.perf_counter() - started

    def give(self, sequence: Generation) -> None:
        """Put the rows into a fresh sequence of the same prompt. Raises ValueError where its drafter needs more."""
        if self._outputs is None:
            return
        required_outputs = sequence.drafter.required_outputs
        if required_outputs | self._needs != self._needs:
            raise ValueError(f"{sequence.drafter.name} needs more of the prompt's passes than they were to keep")
        self.fill(sequence.cache)
        sequence.prefill_outputs.append(self._outputs)

    def fill(self, cache: KVCache) -> None:
        """Put the rows into an empty cache; the prompt's last token is left to run."""
        cache.take(self._cache)
