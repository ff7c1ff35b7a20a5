"""`auto`: everything that may come next in one trie, each node with its calibrated chance, and a neural drafter's
tokens among them where they are worth their time. The engine verifies as much of it as pays (`decoder.budget`).

What a candidate would have been worth is known as soon as the true tokens are, drafted or not: the table learns from
every candidate along the true path, so it costs nothing to keep an eye on sources that are not used. Only a neural
drafter has to run to be judged; `NeuralGate` sees to that.

Two things that passes leave behind anyway sharpen the chances (`calibrator`): one layer's hidden states, by which PLD+
ranks copies, and the last logits, in which LogitSpec finds guesses of the token after the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Ids
from typing import ClassVar

from decoder.artifacts import Artifacts, Needs
from decoder.budget import choose
from decoder.copies import GUESS, NEURAL, NO_PLACE, Candidate, Copies
from decoder.drafters.base import Drafter
from decoder.drafters.equipment import Equipment
from decoder.drafters.small_model import SmallModelDrafter
from decoder.drafters.unit_rows import UnitRows, followed
from decoder.guesses import Guesses
from decoder.sequence import Sequence
from decoder.tree import DraftTree, TokenSource
from decoder.trie import Trie
from decoder.verify import Accepted

_LEAST = 0.002
"""Nodes of less value are never worth a row, not even of a pass that costs the same with it."""
_HEAT_MEMORY = 0.8
_WARM, _HOT = 0.3, 0.7
_USUAL_CHAIN = 4
"""Nodes a neural draft is taken to add, before it has run."""


class AutoDrafter(Drafter):
    """All sources in one valued tree.

    Args:
        matches: most n-gram matches a step.
        longest: most tokens a copy proposes.
        learn: whether the table learns from this sequence.
    """

    name: ClassVar[str] = "auto"
    valued: ClassVar[bool] = True

    def __init__(self, matches: int = 24, longest: int = 64, learn: bool = True) -> None:
        if matches < 1 or longest < 1:
            raise ValueError(f"matches and longest must be at least 1, got {matches} and {longest}")
        self._copies = Copies(matches, longest)
        self._learn = learn
        self._equipment = Equipment()
        self._layer: int | None = None
        self._states: UnitRows | None = None
        self._guesses: Guesses | None = None
        self._neural: SmallModelDrafter | None = None
        self._warmth = 0.5
        """How much of what was generated lately came from drafts."""
        self._trie: Trie | None = None
        self._run: tuple[Trie, int, float, float, int] | None = None
        """Of a step in which the neural drafter ran: copies alone, how many nodes, their promise, seconds it took, how
        many tokens it was behind."""
        self._saved = 0.0
        """Seconds that the neural drafter would have saved since it last ran."""

    def equip(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._layer = equipment.compared_layer
        if self._layer is not None:
            self.needs = Needs(hidden=frozenset({self._layer}))
        if equipment.draft_model is not None:
            self._neural = SmallModelDrafter()
            self._neural.equip(equipment)
            self.needs |= self._neural.needs

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        candidates = self._copies.candidates(sequence, None if self._states is None else self._similarities)
        candidates += self._guessed(sequence, candidates, budget)
        trie = self._trie = self._merged(sequence, candidates, budget)
        self._run = None
        if self._neural is not None and (drafted := self._neural_chain(sequence, trie, budget, self._neural)):
            chain = Candidate(drafted, NO_PLACE, 0, NEURAL, 0)
            trie = self._trie = self._merged(sequence, [*candidates, chain], budget)
        return trie.tree

    def _merged(self, sequence: Sequence, candidates: list[Candidate], budget: int) -> Trie:
        guesses = self._guesses
        return Trie(
            candidates,
            self._equipment.acceptance.of(sequence.domain),
            self._heat,
            nodes=budget,
            depth=sequence.remaining - 1,  # a pass yields one token more than it accepts
            least=self._least(sequence, budget),
            source_of=lambda candidate, at: self._source(sequence, candidate, at),
            gaps=None if guesses is None else lambda tokens: guesses.gaps(tokens, sequence.last_token),
        )

    @property
    def _heat(self) -> int:
        return (self._warmth >= _WARM) + (self._warmth >= _HOT)

    def _least(self, sequence: Sequence, budget: int) -> float:
        """The value below which no node is worth its row."""
        return max(_LEAST, self._equipment.cost.least_value(sequence.pass_tokens, sequence.pass_sequences, budget))

    def _source(self, sequence: Sequence, candidate: Candidate, at: int) -> TokenSource:
        if candidate.lane == NEURAL and self._neural is not None:
            return TokenSource(self._neural.name)
        if candidate.lane == GUESS and at == 0:
            return TokenSource(self.name)
        return sequence.copy_of(self.name, candidate.position + at)

    def _similarities(self, positions: Ids[int]) -> list[float | None]:
        """Cosines of the states before the last token and before the tokens that stand ahead of `positions`."""
        states = self._states
        assert states is not None
        known = [position for position in positions if states.first + 2 <= position <= states.end + 1]
        found = dict(zip(known, states.cosines([at - 2 for at in known], states.end - 1).tolist(), strict=True))
        return [found.get(position) for position in positions]

    def _guessed(self, sequence: Sequence, copies: list[Candidate], budget: int) -> list[Candidate]:
        if self._guesses is None:
            return []
        table = self._equipment.acceptance.of(sequence.domain)
        taken = {candidate.tokens[0] for candidate in copies}
        return self._guesses.candidates(sequence, table, self._heat, self._least(sequence, budget), taken)

    def _neural_chain(self, sequence: Sequence, copies: Trie, budget: int, neural: SmallModelDrafter) -> list[int]:
        """The neural drafter's tokens, where the gate lets it run."""
        cost, gate, others = self._equipment.cost, self._equipment.gate, sequence.pass_sequences - 1
        whole = cost.costs(sequence.pass_tokens, sequence.pass_sequences, budget)
        # Of a shared pass the others pay their part, but while this one drafts they wait.
        costs = [seconds - whole[0] * others / (others + 1) for seconds in whole]
        nodes = choose([copies.tree], costs)[0]
        promised = 1.0 + sum(copies.tree.values[:nodes])
        more = costs[min(nodes + _USUAL_CHAIN, budget)] - costs[nodes]
        behind = neural.behind(sequence)
        if not gate.opens(promised, costs[nodes], more, behind, self._saved, sequence.remaining):
            self._saved += gate.saving(promised, costs[nodes], more)
            return []
        started = time.perf_counter()
        tokens = neural.draft(sequence, budget).tokens
        if tokens:  # else it cannot draft here, which says nothing of what it is worth elsewhere
            self._run = copies, nodes, promised, cost.unhurried(time.perf_counter() - started), behind
            self._saved = 0.0
        return tokens

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, artifacts: Artifacts) -> None:
        if self._neural is not None:
            self._neural.observe(sequence, tree, accepted, artifacts)
            self._judge(sequence, accepted)
        if self._layer is not None and self._layer in artifacts.hidden:
            self._states = followed(self._states, sequence, artifacts.hidden[self._layer])
        self._guesses = Guesses(artifacts.logits[-1].clone()) if artifacts.has_logits else None
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
        self._warmth = _HEAT_MEMORY * self._warmth + (1 - _HEAT_MEMORY) * copied / max(committed, 1)
        self._trie = None

    def _judge(self, sequence: Sequence, accepted: Accepted) -> None:
        """Tell the gate what the neural drafter added, and how much time for trials the step earned."""
        gate = self._equipment.gate
        if self._run is not None:
            copies, nodes, promised, seconds, behind = self._run
            gate.ran(promised, len(accepted.tokens) - copies.yields(accepted.tokens, nodes), seconds, behind)
            self._run = None
        plain = self._equipment.cost.costs(sequence.pass_tokens, sequence.pass_sequences, 0)[0]
        gate.passed(plain * len(accepted.tokens) / sequence.pass_sequences)
