"""Generation: a sequence that the engine works on, with its drafter and what its prompt's passes left behind."""

from __future__ import annotations

from collections.abc import Sequence as Ids
from typing import Any

from decoder.drafters.base import Drafter
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.prefix import KeptRows, Prefix
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import StopStrings
from decoder.sequence import PromptSegment, Sequence


class Generation(Sequence):
    """One answer being generated. Made by `Engine.start`; arguments as `Sequence`, and

    Args:
        drafter: its own.
        kept_rows: rows of outputs that a prefix of it will have; None where none is wanted.
    """

    def __init__(
        self,
        prompt: Ids[int],
        params: SamplingParams,
        segments: Ids[PromptSegment],
        drafter: Drafter,
        cache: KVCache | None,
        end_tokens: frozenset[int],
        stop_strings: StopStrings | None = None,
        *,
        resumed: Ids[int] = (),
        kept_rows: KeptRows | None = None,
        **options: Any,
    ) -> None:
        self.drafter = drafter
        self.kept_rows = kept_rows
        self.prefilled = False
        """Whether `input_ids` are through and a token was chosen."""
        self.prefill_outputs: list[ForwardOutputs] = []
        """Of the passes over `input_ids`, until these are through."""
        super().__init__(prompt, params, segments, cache, end_tokens, stop_strings, resumed=resumed, **options)
        self.input_ids = [*self.prompt, *resumed]
        """What is prefilled: the prompt, and what was generated of the answer before, elsewhere."""

    def leave(self) -> Prefix | None:
        """What another sequence may begin on: the rows of all tokens but the last. The cache goes with it.

        None where nothing was to be kept, or where the prompt is not through.
        """
        kept, self.kept_rows = self.kept_rows, None
        if kept is None or not self.prefilled:
            return None
        cache, self._cache = self.cache, None
        cache.drop()
        return Prefix((self.prompt + self.tokens)[: cache.length], cache, kept.joined())
