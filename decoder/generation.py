"""Generation: a sequence with what the engine needs to run it: its drafter, its prompt's passes, its strictness."""

from __future__ import annotations

from collections.abc import Sequence as Ids
from typing import Any

import torch

from decoder.drafters.base import Drafter
from decoder.drafts.accepted import Accepted
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.prefix import KeptRows, Prefix
from decoder.planning.draft_gate import DraftGate
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import StopStrings
from decoder.sequence import PromptSegment, Sequence


class Generation(Sequence):
    """One answer being generated. `Engine.start` makes it; arguments as `Sequence`, and

    Args:
        drafter: a drafter of its own.
        max_nodes: most draft nodes a step.
        near_tie: margin in logits below which a strict answer decides a token again; None if it is not strict.
        kept_rows: collects the rows of outputs for `detach_prefix`; None if it has no prefix to detach.
        read: decoder layers to read at the prompt's last token.
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
        max_nodes: int = 0,
        near_tie: float | None = None,
        kept_rows: KeptRows | None = None,
        read: frozenset[int] = frozenset(),
        resumed: Ids[int] = (),
        **options: Any,
    ) -> None:
        super().__init__(prompt, params, segments, cache, end_tokens, stop_strings, resumed=resumed, **options)
        self.drafter = drafter
        self.gate = DraftGate()
        self.resting = False
        """Whether the running step is without a draft because the gate is closed."""
        self.max_nodes = max_nodes
        self.near_tie = near_tie
        self.doubtful: int | None = None
        """The token that the last pass chose by a near-tie; the next pass decides it alone."""
        self.kept_rows = kept_rows
        self.input_ids = [*self.prompt, *resumed]
        """The tokens to prefill: the prompt, and the tokens of the answer that were generated before."""
        self.prefilled = False
        """Whether `input_ids` are in the cache and a token is chosen."""
        self.read_layers = read
        """The layers to keep `states` of."""
        self.states: dict[int, torch.Tensor] = {}
        """Layer -> [D]: its output at the prompt's last token, once the prompt is prefilled. Empty if the answer was
        resumed: the last token that is prefilled is not the prompt's."""
        self.prefill_outputs: list[ForwardOutputs] = []
        """The outputs of the passes over `input_ids`, until the prompt is prefilled."""
        self._cancelled = False

    @property
    def prefill_required(self) -> RequiredOutputs:
        """The outputs to keep of the passes over `input_ids`."""
        return self.drafter.required_outputs | RequiredOutputs(last=self.read_layers)

    def read(self, outputs: ForwardOutputs) -> None:
        """Keep what is to be read of the pass over the last of `input_ids`."""
        if len(self.input_ids) == len(self.prompt):
            self.states = {layer: state.clone() for layer, state in outputs.last.items()}

    @property
    def may_draft(self) -> bool:
        """Whether the next pass may have drafts: not for the last token, nor if one row has to decide alone."""
        return self.max_nodes > 0 and self.remaining > 1 and self.doubtful is None

    @property
    def required(self) -> RequiredOutputs:
        """The outputs to keep of the next pass: a resting drafter reads none, but a later answer's may."""
        return self.drafter.required_outputs if self.kept_rows is not None or not self.resting else RequiredOutputs()

    def cancel(self) -> None:
        """Finish before the next step and keep the tokens so far. Safe from any thread."""
        self._cancelled = True

    def finish_if_cancelled(self) -> bool:
        """Finish if the sequence was cancelled; returns whether it is finished."""
        if self._cancelled and not self.finished:
            self.finish_reason = "cancelled"
        return self.finished

    def record_near_tie(self, accepted: Accepted) -> None:
        """Note a strict step's near-tie for the next pass to decide, and count the one that this pass decided."""
        if self.doubtful is not None:
            self.stats.extra_passes += 1
            self.stats.near_ties_changed += accepted.tokens[0] != self.doubtful
        self.doubtful = None if self.finished else accepted.doubtful
        self.stats.near_ties += self.doubtful is not None

    def detach_prefix(self) -> Prefix | None:
        """Give up the cache, as a prefix for another sequence: the rows of all tokens but the last.

        None if the request did not set `keep`, or if the prompt is not prefilled.
        """
        kept_rows, self.kept_rows = self.kept_rows, None
        if kept_rows is None or not self.prefilled:
            return None
        cache, self._cache = self.cache, None
        cache.drop()
        return Prefix((self.prompt + self.tokens)[: cache.length], cache, kept_rows.joined())
