"""`auto`: all candidates for the next tokens in one trie, each node with its calibrated chance, and a neural drafter's
tokens among them if they are worth their time. The engine verifies as many nodes as pay (`planning.budget`).

The true tokens show what every candidate was worth, drafted or not: the table learns from every candidate along the
true path, so a source that is not used costs nothing to watch. Only a neural drafter must run to be judged;
`NeuralGate` decides when.

Two outputs of the last pass sharpen the chances (`calibrator`): one layer's hidden states, by which PLD+ ranks copies,
and the last logits, in which LogitSpec finds guesses of the token after the next.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence as Ids
from dataclasses import replace
from typing import ClassVar

from decoder.drafters.auto.copies import HEAD, MASKS, NEURAL, NO_PLACE, RECYCLED, Copies
from decoder.drafters.auto.core_choice import core_for
from decoder.drafters.auto.draft_probabilities import DraftProbabilities
from decoder.drafters.auto.guesses import Guesses
from decoder.drafters.auto.trie import Evidence, Trie
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.eagle.drafter import EagleDrafter
from decoder.drafters.sdsat.drafter import SdsatDrafter
from decoder.drafters.small_model import SmallModelDrafter
from decoder.drafters.state_rows import StateRows, extended
from decoder.drafters.untrained.next_token_drafter import NextTokenDrafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.planning.budget import choose
from decoder.sequence import Sequence

_LEAST = 0.002
"""Nodes of less value are never worth a row, even if the pass costs the same with it."""
_RECENT_MEMORY = 0.8
"""Weight of the earlier steps in the moving average of recent acceptance."""
_RECENT_BORDERS = (0.3, 0.7, 0.92)
"""Least share of each level of recent acceptance but the first."""
_RECYCLED_NODES = 32
"""Most recycled nodes."""
_USUAL_CHAIN = 4
"""Nodes that a neural draft is expected to add."""


class AutoDrafter(Drafter):
    """All candidates in one valued tree.

    Args:
        matches: most n-gram matches a step.
        longest: most tokens of a copy.
        learn: whether the table learns from this sequence.
        survey: steps between two evaluations of all guesses of the last logits.
        neural: whether the engine's head, draft model or adapters may draft.
        recycled: whether `next_tokens` may draft where no neural drafter does and the context says so.
        compiled: whether its core is compiled; None compiles it where numba is installed. The drafts are the same.
    """

    name: ClassVar[str] = "auto"
    valued: ClassVar[bool] = True

    def __init__(
        self,
        matches: int = 24,
        longest: int = 64,
        learn: bool = True,
        survey: int = 32,
        neural: bool = True,
        recycled: bool = True,
        compiled: bool | None = None,
    ) -> None:
        if min(matches, longest, survey) < 1:
            raise ValueError(f"matches, longest and survey must be at least 1, got {matches}, {longest} and {survey}")
        self._copies = Copies(matches, longest)
        self._core = core_for(compiled)(self.name, self._copies)
        self._learn = learn
        self._survey = survey
        self._may_be_neural = neural
        self._may_be_recycled = recycled
        self._steps = 0
        self._copied_first: set[int] = set()
        """First tokens of the step's copies."""
        self._context = DrafterContext()
        self._layer: int | None = None
        self._states: StateRows | None = None
        self._guesses: Guesses | None = None
        self._neural: EagleDrafter | SmallModelDrafter | None = None
        self._masks: SdsatDrafter | None = None
        self._recycling: NextTokenDrafter | None = None
        self._recent_share = 0.5
        """Moving average over steps of the share of tokens that came from drafts."""
        self._trie: Trie | None = None
        self._copies_only: tuple[Trie, int, float] | None = None
        """The step without a neural drafter: its trie, the nodes that the budget would keep, the expected tokens."""
        self._neural_run: tuple[float, int] | None = None
        """The step's neural draft, or reading of masks: its seconds, and the tokens that it had to process first."""
        self._saved = 0.0
        """Seconds that the neural drafter would have saved since it last ran."""

    def setup(self, context: DrafterContext) -> None:
        self._context = context
        self.may_rest = True
        self._layer = context.compared_layer
        if self._layer is not None:
            self.required_outputs = RequiredOutputs(hidden=frozenset({self._layer}))
        if self._may_be_neural:
            self._set_up_neural(context)
        if self._may_be_recycled and context.recycle and self._neural is None and self._masks is None:
            self._recycling = NextTokenDrafter(_RECYCLED_NODES)
            self._recycling.setup(context)
            self.required_outputs |= self._recycling.required_outputs

    def _set_up_neural(self, context: DrafterContext) -> None:
        if context.target is not None and context.target.adapters is not None:
            self._masks = SdsatDrafter()  # masks see every layer and need no pass of their own
            self._masks.setup(context)
            self.may_rest = False
            return
        if context.eagle_head is not None:
            self._neural = EagleDrafter()
        elif context.draft_model is not None:
            self._neural = SmallModelDrafter()
        if self._neural is not None:
            self._neural.setup(context)
            self.required_outputs |= self._neural.required_outputs
            self.may_rest = False  # it needs the outputs of every step

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        evidence = Evidence(
            self._context.acceptance.of(sequence.domain),
            self._recent_acceptance,
            sequence.last_token,
            sequence.end_tokens,
            self._guesses,
        )
        least = self._least(sequence, budget)
        self._copied_first = self._core.find(
            sequence, evidence, least, None if self._states is None else self._similarities
        )
        if self._recycling is not None:
            self._recycling.least = least
            recycled = self._recycling.draft(sequence, budget)
            evidence = replace(evidence, draft_probabilities=DraftProbabilities(recycled, RECYCLED))
        trie = self._trie = self._merged(sequence, evidence, budget, least)
        self._copies_only = self._neural_run = None
        if self._neural is None and self._masks is None:
            return trie.tree
        costs = self._costs(sequence, budget)
        nodes = choose([trie.tree], costs)[0]
        self._copies_only = trie, nodes, 1.0 + sum(trie.tree.values[:nodes])
        draft_probabilities = (
            self._run(sequence, budget, costs) if self._neural is not None else self._read_masks(sequence, budget)
        )
        if draft_probabilities is not None:
            evidence = replace(evidence, draft_probabilities=draft_probabilities)
            trie = self._trie = self._merged(sequence, evidence, budget, least)
        return trie.tree

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        """Masks after each point where the accepted path may end, if the gate finds them worth their rows."""
        if self._masks is None or self._copies_only is None:
            return NO_MASKS
        chains = self._masks.masks(sequence, tree)
        costs = self._costs(sequence, len(tree) + len(chains))
        expected, seconds, gate = self._copies_only[2], costs[len(tree)], self._context.mask_gate
        worth = gate.should_run(expected, seconds, costs[-1] - seconds, remaining=sequence.remaining)
        return chains if worth else NO_MASKS

    def _costs(self, sequence: Sequence, nodes: int) -> list[float]:
        """The sequence's share of the seconds of the pass with 0 to `nodes` draft nodes."""
        load = sequence.pass_load
        whole = self._context.cost.costs(load.cached_tokens, load.sequences, nodes)
        return [seconds - whole[0] * (load.sequences - 1) / load.sequences for seconds in whole]

    def _merged(self, sequence: Sequence, evidence: Evidence, budget: int, least: float) -> Trie:
        depth = sequence.remaining - 1  # a pass yields one token more than it accepts
        return self._core.merge(sequence, evidence, nodes=budget, depth=depth, least=least)

    @property
    def _recent_acceptance(self) -> int:
        return bisect_right(_RECENT_BORDERS, self._recent_share)

    def _least(self, sequence: Sequence, budget: int) -> float:
        """The least value of a node that is worth its row."""
        load = sequence.pass_load
        return max(_LEAST, self._context.cost.least_value(load.cached_tokens, load.sequences, budget))

    def _similarities(self, positions: Ids[int]) -> list[float | None]:
        """Cosines between the state that chose the last token and those that chose the tokens before `positions`."""
        states = self._states
        assert states is not None
        known = [position for position in positions if states.first + 2 <= position <= states.end + 1]
        cosines = dict(zip(known, states.cosines([at - 2 for at in known], states.end - 1).tolist(), strict=True))
        return [cosines.get(position) for position in positions]

    def _run(self, sequence: Sequence, budget: int, costs: Ids[float]) -> DraftProbabilities | None:
        """The neural drafter's tree, if the gate lets it run."""
        neural, gate = self._neural, self._context.gate
        assert neural is not None
        assert self._copies_only is not None
        _, nodes, expected = self._copies_only
        extra = costs[min(nodes + _USUAL_CHAIN, budget)] - costs[nodes]
        unprocessed = neural.unprocessed(sequence)
        if not gate.should_run(expected, costs[nodes], extra, unprocessed, self._saved, sequence.remaining):
            self._saved += gate.saving(expected, costs[nodes], extra)
            return None
        started = time.perf_counter()
        tree = neural.draft(sequence, budget)
        if not len(tree):  # it cannot draft here, which does not lower its gain elsewhere
            return None
        self._neural_run = self._context.cost.normalised(time.perf_counter() - started), unprocessed
        self._saved = 0.0
        return DraftProbabilities(tree, HEAD if isinstance(neural, EagleDrafter) else NEURAL)

    def _read_masks(self, sequence: Sequence, budget: int) -> DraftProbabilities | None:
        """The tokens that the last pass's masks after its end propose, if it had masks."""
        assert self._masks is not None
        if not self._masks.ready(sequence):
            return None
        started = time.perf_counter()
        tree = self._masks.draft(sequence, budget)
        self._neural_run = self._context.cost.normalised(time.perf_counter() - started), 0
        return DraftProbabilities(tree, MASKS)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        for drafter in (self._neural, self._masks, self._recycling):
            if drafter is not None:
                drafter.observe(sequence, tree, accepted, outputs)
        self._teach_gate(sequence, accepted)
        if self._layer is not None and self._layer in outputs.hidden:
            self._states = extended(self._states, sequence, outputs.hidden[self._layer])
        self._survey_guesses(sequence, accepted)
        if not outputs.has_logits:
            self._guesses = None
        elif self._guesses is None:
            self._guesses = Guesses(outputs.logits[-1])
        else:
            self._guesses.see(outputs.logits[-1])
        copied, committed = len(accepted.path), len(accepted.tokens)
        position, length = NO_PLACE, 0
        if self._trie is not None:
            if self._learn:
                self._trie.learn(accepted.tokens)
            position, length = self._trie.leading(accepted.tokens[:copied])
        if position == NO_PLACE:
            self._copies.follow(None, 0, committed)
        else:
            self._copies.follow(position + copied, length + copied, committed)
        self._recent_share = _RECENT_MEMORY * self._recent_share + (1 - _RECENT_MEMORY) * copied / max(committed, 1)
        self._trie = None

    def rest(self, sequence: Sequence, accepted: Accepted) -> None:
        self._states = self._guesses = self._trie = None  # they are of earlier steps
        self._copies.follow(None, 0, len(accepted.tokens))
        self._recent_share *= _RECENT_MEMORY

    def _survey_guesses(self, sequence: Sequence, accepted: Accepted) -> None:
        """Every `survey` steps, learn from all guesses, proposed or not."""
        self._steps += 1
        if self._trie is None or self._guesses is None or not self._learn or self._steps % self._survey:
            return
        if sequence.finished:  # the answer may hold only some of the accepted tokens
            return
        table = self._context.acceptance.of(sequence.domain)
        last = sequence.suffix(len(accepted.tokens) + 1)[0]
        self._guesses.learn(table, self._recent_acceptance, self._copied_first, last, accepted.tokens[0])

    def _teach_gate(self, sequence: Sequence, accepted: Accepted) -> None:
        """Report to the gate the tokens that the neural drafter or the masks added, and the time the step earned."""
        if self._neural is None and self._masks is None:
            return
        gate = self._context.gate if self._neural is not None else self._context.mask_gate
        if self._copies_only is not None:
            copies, nodes, expected = self._copies_only
            added = len(accepted.tokens) - copies.yields(accepted.tokens, nodes)
            if self._neural_run is not None:
                seconds, unprocessed = self._neural_run
                gate.ran(expected, added, seconds, unprocessed)
        self._copies_only = self._neural_run = None
        load = sequence.pass_load
        plain = self._context.cost.costs(load.cached_tokens, load.sequences, 0)[0]
        gate.add_credit(plain * len(accepted.tokens) / load.sequences)
