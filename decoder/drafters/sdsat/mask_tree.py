"""Trees from adaptive rows: the likeliest paths through what the masks guess, best first.

Knows guesses of one sequence, adapters and the target's head; knows no pass and no cache.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import perturbed_scores

if TYPE_CHECKING:
    from decoder.model.adapters import Adapters
    from decoder.model.target import TargetModel
    from decoder.sequence import Sequence

CANDIDATES = 64
"""Tokens of each mask that are looked at."""


class MaskGuesses:
    """What the masks behind one accept point guess: `CANDIDATES` tokens each.

    Args:
        target: has adapters, which make logits of states.
        states: [k, D], what the masks tell; row i the token i + 2 places behind the point.
        last: the token next to the point.
    """

    def __init__(self, target: TargetModel, states: torch.Tensor, last: int) -> None:
        assert target.adapters is not None, "states of adaptive rows come from a target with adapters"
        self._adapters: Adapters = target.adapters
        self._model = target.model
        self._states = states
        self._before: list[int] = []
        """The token that each mask's candidates were looked up behind."""
        self._ids, self._scores, mass = self._look(last)
        self._vocab_size = target.vocab_size
        self._mass: list[float] = mass.tolist()
        self._tokens: list[list[int]] = self._ids.tolist()

    def __len__(self) -> int:
        return len(self._states)

    @torch.inference_mode()
    def _look(self, last: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Candidates [k, n], their logits, and their probability together [k], each mask knowing the best token of the
        one before it."""
        ids, scores, mass = [], [], []
        for mask, state in enumerate(self._states):
            self._before.append(last)
            combined = self._adapters.combined(mask, state, self._model.get_input_embeddings().weight[last])
            logits = self._adapters.logits(self._model, combined[None])[0]  # [V], or of the tokens that can be drafted
            best = logits.topk(min(CANDIDATES, len(logits)))
            ids.append(best.indices if self._adapters.tokens is None else self._adapters.tokens[best.indices])
            scores.append(best.values)
            mass.append((best.values.double().logsumexp(-1) - logits.double().logsumexp(-1)).exp())
            last = int(ids[-1][0])
        return torch.stack(ids), torch.stack(scores), torch.stack(mass)

    @torch.inference_mode()
    def scores(self, mask: int, before: int) -> torch.Tensor:
        """Logits of a mask's candidates, [n], knowing the token before them."""
        if before == self._before[mask] or self._adapters.coupler is None:
            return self._scores[mask]
        return self._of(mask, before, self._ids[mask])

    @torch.inference_mode()
    def _of(self, mask: int, before: int, ids: torch.Tensor) -> torch.Tensor:
        """Logits of a mask for any tokens, [n]."""
        embedding = self._model.get_input_embeddings().weight[before]
        state = self._adapters.combined(mask, self._states[mask], embedding)
        head = self._model.get_output_embeddings()
        scores: torch.Tensor = head.weight[ids] @ state
        return scores if head.bias is None else scores + head.bias[ids]

    def best(
        self, mask: int, before: int, params: SamplingParams, position: int, history: History, branches: int
    ) -> list[tuple[float, int]]:
        """The likeliest tokens at an absolute position: (chance, token), in falling order, at most `branches`.

        They are ranked as `select` would rank them, with the answer's own noise. The target's logits are taken to be
        the guess off by standard Gumbel noise, as training by cross-entropy has it; at temperature T that is 1 / T in
        what `select` compares, so a chance is the softmax of T times that, and of the logits for greedy answers.
        """
        tokens = self._tokens[mask]
        if params.plain_greedy:
            compared = self.scores(mask, before).to("cpu", torch.float64).numpy()
        else:
            tokens, compared = self._contest(mask, before, params, position, history)
            if not tokens:
                return []
        weights = np.exp(compared - compared.max())
        order = np.argsort(-weights, kind="stable")[:branches].tolist()
        whole = float(weights.sum()) / self._mass[mask]
        return [(float(weights[place]) / whole, tokens[place]) for place in order if weights[place] > 0.0]

    def _contest(
        self, mask: int, before: int, params: SamplingParams, position: int, history: History
    ) -> tuple[list[int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
        """`select.perturbed_scores` over the candidates and the tokens that a bias favours: tokens, and T times what it
        compares (the scores themselves at temperature 0)."""
        logits = torch.full((self._vocab_size,), float("-inf"), dtype=torch.float64)
        raised = [token for token, bias in params.logit_bias.items() if bias > 0.0]
        if raised:
            logits[raised] = self._of(mask, before, torch.tensor(raised, device=self._ids.device)).to(
                "cpu", logits.dtype
            )
        logits[self._ids[mask].cpu()] = self.scores(mask, before).to("cpu", logits.dtype)
        barred = [token for token, bias in params.logit_bias.items() if bias == float("-inf")]
        logits[barred] = float("-inf")
        if not bool(torch.isfinite(logits).any()):
            return [], np.empty(0)
        tokens, compared = perturbed_scores(logits, params, position, history)
        finite = np.isfinite(compared)
        return tokens[finite].tolist(), compared[finite] * (params.temperature or 1.0)


def grow(
    sequence: Sequence,
    guesses: MaskGuesses,
    source: TokenSource,
    nodes: int,
    branches: int,
    least: float,
) -> DraftTree:
    """The `nodes` likeliest nodes, parents before children and `values` falling.

    Args:
        branches: children of a node at most.
        least: nodes of less value are left out.
    """
    tree = DraftTree()
    depth = min(len(guesses), sequence.remaining - 1)  # a pass yields one token more than it accepts
    reads, params = sequence.params.reads_history, sequence.params

    def children(node: int) -> Iterator[tuple[float, int, int]]:
        below = 0 if node == ROOT else tree.depths[node]
        if below >= depth:
            return
        before = sequence.last_token if node == ROOT else tree.tokens[node]
        history = _behind(sequence.history, tree, node) if reads else sequence.history
        value = 1.0 if node == ROOT else tree.values[node]
        for chance, token in guesses.best(below, before, params, sequence.position + below, history, branches):
            if value * chance >= least:
                yield -value * chance, node, token

    waiting = list(children(ROOT)) if nodes > 0 else []
    heapq.heapify(waiting)
    while waiting and len(tree) < nodes:
        falling, parent, token = heapq.heappop(waiting)
        node = tree.add(token, parent, source)
        tree.values.append(-falling)
        if len(tree) < nodes:
            for child in children(node):
                heapq.heappush(waiting, child)
    return tree


def _behind(history: History, tree: DraftTree, node: int) -> History:
    """The history with a node's path pushed onto it."""
    path: list[int] = []
    while node != ROOT:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    copied = history.copy()
    for token in reversed(path):
        copied.push(token)
    return copied
