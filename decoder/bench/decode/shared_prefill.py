"""SharedPrefill: a prompt processed once for all modes that answer it.

It covers all tokens but the last. Each generation runs the last token itself, in a pass of one row, so it chooses its
first token and its drafter observes the prompt as usual. A neural drafter's own model is not covered.

Knows target models and generations; knows no benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Ids

from decoder.generation import Generation
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.target import TargetModel


class SharedPrefill:
    """Keys, values and forward outputs of a prompt.

    Args:
        required_outputs: the union of what the generations' drafters require.

    Attributes:
        seconds: duration of the prefill.
    """

    def __init__(self, target: TargetModel, prompt_ids: Ids[int], required_outputs: RequiredOutputs) -> None:
        started = time.perf_counter()
        rows = len(prompt_ids) - 1
        self._cache = target.new_cache(rows)
        self._required_outputs = required_outputs
        self._outputs = target.prefill(prompt_ids[:-1], self._cache, required_outputs) if rows else None
        if self._outputs is not None:
            self._outputs.logits.argmax(-1).tolist()  # waits for the device
        self.seconds = time.perf_counter() - started

    def copy_to(self, sequence: Generation) -> None:
        """Copy the prefill into a new generation of the same prompt. Raises ValueError if its drafter needs more."""
        if self._outputs is None:
            return
        if sequence.drafter.required_outputs | self._required_outputs != self._required_outputs:
            raise ValueError(f"{sequence.drafter.name} needs more forward outputs than the shared prefill has")
        self.copy_rows(sequence.cache)
        sequence.prefill_outputs.append(self._outputs)

    def copy_rows(self, cache: KVCache) -> None:
        """Copy the rows into an empty cache; the prompt's last token remains to be run."""
        cache.take(self._cache)
