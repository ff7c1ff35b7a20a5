"""`auto`: everything that may come next in one trie, each node with its calibrated chance, and a neural drafter's
tokens among them where they are worth their time. The engine verifies as much of it as pays (`planning.budget`).

What a candidate would have been worth is known as soon as the true tokens are, drafted or not: the table learns from
every candidate along the true path, so it costs nothing to keep an eye on sources that are not used. Only a neural
drafter has to run to be judged; `NeuralGate` sees to that.

Two things that passes leave behind anyway sharpen the chances (`calibrator`): one layer's hidden states, by which PLD+
ranks copies, and the last logits, in which LogitSpec finds guesses of the token after the next.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence as Ids
from typing import ClassVar

from decoder.drafters.auto.copies import GUESS, HEAD, MASKS, NEURAL, NO_PLACE, Candidate, Copies
from decoder.drafters.auto.draft_probabilities import DraftProbabilities
from decoder.drafters.auto.guesses import Guesses
from decoder.drafters.auto.trie import Evidence, Trie, merge_candidates
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.eagle.drafter import EagleDrafter
from decoder.drafters.sdsat.drafter import SdsatDrafter
from decoder.drafters.small_model import SmallModelDrafter
from decoder.drafters.state_rows import StateRows, extended
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.planning.budget import choose
from decoder.sequence import Sequence

_LEAST = 0.002
"""Nodes of less value are never worth a row, not even of a pass that costs the same with it."""
_HEAT_MEMORY = 0.8
_WARMTHS = (0.3, 0.7, 0.92)
_USUAL_CHAIN = 4
"""Nodes a neural draft is taken to add, before it has run."""
_NEURAL = {
    proposal_type: TokenSource(drafter.name)
    for proposal_type, drafter in ((HEAD, EagleDrafter), (NEURAL, SmallModelDrafter), (MASKS, SdsatDrafter))
}


class AutoDrafter(Drafter):
    """All sources in one valued tree.

    Args:
        matches: most n-gram matches a step.
        longest: most tokens a copy proposes.
        learn: whether the table learns from this sequence.
        survey: steps from one look at what all guesses of the last logits would have been worth to the next.
        neural: whether a head, draft model or adapters may draft where the engine has them.
    """

    name: ClassVar[str] = "auto"
    valued: ClassVar[bool] = True

    def __init__(
        self, matches: int = 24, longest: int = 64, learn: bool = True, survey: int = 32, neural: bool = True
    ) -> None:
        if min(matches, longest, survey) < 1:
            raise ValueError(f"matches, longest and survey must be at least 1, got {matches}, {longest} and {survey}")
        self._copies = Copies(matches, longest)
        self._learn = learn
        self._survey = survey
        self._may_be_neural = neural
        self._steps = 0
        self._taken: set[int] = set()
        """First tokens of the step's copies."""
        self._context = DrafterContext()
        self._layer: int | None = None
        self._states: StateRows | None = None
        self._guesses: Guesses | None = None
        self._neural: EagleDrafter | SmallModelDrafter | None = None
        self._masks: SdsatDrafter | None = None
        self._recent_share = 0.5
        """How much of what was generated lately came from drafts."""
        self._trie: Trie | None = None
        self._alone: tuple[Trie, int, float] | None = None
        """Of the step: copies alone, how many of their nodes they would have got, and what those promise."""
        self._ran: tuple[float, int] | None = None
        """Of a step in which the neural drafter ran, or in which masks of the last pass were read: seconds it took, and
        how many tokens it was behind."""
        self._saved = 0.0
        """Seconds that the neural drafter would have saved since it last ran."""

    def setup(self, context: DrafterContext) -> None:
        self._context = context
        self._layer = context.compared_layer
        if self._layer is not None:
            self.required_outputs = RequiredOutputs(hidden=frozenset({self._layer}))
        if not self._may_be_neural:
            return
        if context.target is not None and context.target.adapters is not None:
            self._masks = SdsatDrafter()  # masks see every layer and ride on passes that run anyway
            self._masks.setup(context)
            return
        if context.eagle_head is not None:
            self._neural = EagleDrafter()
        elif context.draft_model is not None:
            self._neural = SmallModelDrafter()
        if self._neural is not None:
            self._neural.setup(context)
            self.required_outputs |= self._neural.required_outputs

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        candidates = self._copies.candidates(sequence, None if self._states is None else self._similarities)
        self._taken = {candidate.tokens[0] for candidate in candidates}
        candidates += self._guessed(sequence, budget)
        trie = self._trie = self._merged(sequence, candidates, budget)
        self._alone = self._ran = None
        if self._neural is None and self._masks is None:
            return trie.tree
        costs = self._costs(sequence, budget)
        nodes = choose([trie.tree], costs)[0]
        self._alone = trie, nodes, 1.0 + sum(trie.tree.values[:nodes])
        draft_probabilities = (
            self._run(sequence, budget, costs) if self._neural is not None else self._read_masks(sequence, budget)
        )
        if draft_probabilities is not None:
            trie = self._trie = self._merged(sequence, candidates, budget, [draft_probabilities])
        return trie.tree

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        """Masks behind the points where the pass may end, where the gate thinks them worth their rows."""
        if self._masks is None or self._alone is None:
            return NO_MASKS
        chains = self._masks.masks(sequence, tree)
        costs = self._costs(sequence, len(tree) + len(chains))
        promised, seconds = self._alone[2], costs[len(tree)]
        should_run = self._context.mask_gate.should_run(promised, seconds, costs[-1] - seconds, left=sequence.remaining)
        return chains if should_run else NO_MASKS

    def _costs(self, sequence: Sequence, nodes: int) -> list[float]:
        """Seconds of the pass with 0 to `nodes` draft nodes. Of a shared pass the others pay their part."""
        load = sequence.pass_load
        whole = self._context.cost.costs(load.cached_tokens, load.sequences, nodes)
        return [seconds - whole[0] * (load.sequences - 1) / load.sequences for seconds in whole]

    def _merged(
        self,
        sequence: Sequence,
        candidates: list[Candidate],
        budget: int,
        draft_probabilities: Ids[DraftProbabilities] = (),
    ) -> Trie:
        guesses, last = self._guesses, sequence.last_token
        evidence = Evidence(
            self._context.acceptance.of(sequence.domain),
            self._recent_acceptance,
            last,
            sequence.end_tokens,
            None if guesses is None else lambda tokens: guesses.logit_margins(tokens, last),
            draft_probabilities,
        )
        return merge_candidates(
            candidates,
            evidence,
            lambda candidate, at: self._source(sequence, candidate, at),
            nodes=budget,
            depth=sequence.remaining - 1,  # a pass yields one token more than it accepts
            least=self._least(sequence, budget),
        )

    @property
    def _recent_acceptance(self) -> int:
        return bisect_right(_WARMTHS, self._recent_share)

    def _least(self, sequence: Sequence, budget: int) -> float:
        """The value below which no node is worth its row."""
        load = sequence.pass_load
        return max(_LEAST, self._context.cost.least_value(load.cached_tokens, load.sequences, budget))

    def _source(self, sequence: Sequence, candidate: Candidate, at: int) -> TokenSource:
        if candidate.proposal_type in _NEURAL:
            return _NEURAL[candidate.proposal_type]
        if candidate.proposal_type == GUESS and at == 0:
            return TokenSource(self.name)
        return sequence.copy_of(self.name, candidate.position + at)

    def _similarities(self, positions: Ids[int]) -> list[float | None]:
        """Cosines of the states before the last token and before the tokens that stand ahead of `positions`."""
        states = self._states
        assert states is not None
        known = [position for position in positions if states.first + 2 <= position <= states.end + 1]
        found = dict(zip(known, states.cosines([at - 2 for at in known], states.end - 1).tolist(), strict=True))
        return [found.get(position) for position in positions]

    def _guessed(self, sequence: Sequence, budget: int) -> list[Candidate]:
        if self._guesses is None:
            return []
        table = self._context.acceptance.of(sequence.domain)
        return self._guesses.candidates(
            sequence, table, self._recent_acceptance, self._least(sequence, budget), self._taken
        )

    def _run(self, sequence: Sequence, budget: int, costs: Ids[float]) -> DraftProbabilities | None:
        """The neural drafter's tree, where the gate lets it run."""
        neural, gate = self._neural, self._context.gate
        assert neural is not None
        assert self._alone is not None
        _, nodes, promised = self._alone
        more = costs[min(nodes + _USUAL_CHAIN, budget)] - costs[nodes]
        behind = neural.behind(sequence)
        if not gate.should_run(promised, costs[nodes], more, behind, self._saved, sequence.remaining):
            self._saved += gate.saving(promised, costs[nodes], more)
            return None
        started = time.perf_counter()
        tree = neural.draft(sequence, budget)
        if not len(tree):  # it cannot draft here, which says nothing of what it is worth elsewhere
            return None
        self._ran = self._context.cost.normalised(time.perf_counter() - started), behind
        self._saved = 0.0
        return DraftProbabilities(tree, HEAD if isinstance(neural, EagleDrafter) else NEURAL)

    def _read_masks(self, sequence: Sequence, budget: int) -> DraftProbabilities | None:
        """What the last pass's masks behind its end guessed, where it had some."""
        assert self._masks is not None
        if not self._masks.ready(sequence):
            return None
        started = time.perf_counter()
        tree = self._masks.draft(sequence, budget)
        self._ran = self._context.cost.normalised(time.perf_counter() - started), 0
        return DraftProbabilities(tree, MASKS)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        for drafter in (self._neural, self._masks):
            if drafter is not None:
                drafter.observe(sequence, tree, accepted, outputs)
        self._judge(sequence, accepted)
        if self._layer is not None and self._layer in outputs.hidden:
            self._states = extended(self._states, sequence, outputs.hidden[self._layer])
        self._look_back(sequence, accepted)
        self._guesses = Guesses(outputs.logits[-1].clone()) if outputs.has_logits else None
        copied, committed = len(accepted.path), len(accepted.tokens)
        source = None
        if self._trie is not None:
            if self._learn:
                self._trie.learn(accepted.tokens)
            source = self._trie.leading(accepted.tokens[:copied])
        if source is None or source.position == NO_PLACE:
            self._copies.follow(None, 0, committed)
        else:
            self._copies.follow(source.position + copied, source.length + copied, committed)
        self._recent_share = _HEAT_MEMORY * self._recent_share + (1 - _HEAT_MEMORY) * copied / max(committed, 1)
        self._trie = None

    def _look_back(self, sequence: Sequence, accepted: Accepted) -> None:
        """Now and then, learn what all guesses would have been worth."""
        self._steps += 1
        if self._trie is None or self._guesses is None or not self._learn or self._steps % self._survey:
            return
        if sequence.finished:  # not all of the accepted may be the answer's
            return
        table = self._context.acceptance.of(sequence.domain)
        last = sequence.suffix(len(accepted.tokens) + 1)[0]
        self._guesses.learn(table, self._recent_acceptance, self._taken, last, accepted.tokens[0])

    def _judge(self, sequence: Sequence, accepted: Accepted) -> None:
        """Tell the gates what the neural drafter or the masks added, and how much time for trials the step earned."""
        if self._neural is None and self._masks is None:
            return
        gate = self._context.gate if self._neural is not None else self._context.mask_gate
        if self._alone is not None:
            copies, nodes, promised = self._alone
            added = len(accepted.tokens) - copies.yields(accepted.tokens, nodes)
            if self._ran is not None:
                seconds, behind = self._ran
                gate.ran(promised, added, seconds, behind)
        self._alone = self._ran = None
        load = sequence.pass_load
        plain = self._context.cost.costs(load.cached_tokens, load.sequences, 0)[0]
        gate.add_credit(plain * len(accepted.tokens) / load.sequences)
