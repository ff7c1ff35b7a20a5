"""Trees from adaptive rows: the most likely paths through the masks' candidates, best first.

Knows candidates of one sequence, adapters and the target's head; knows no pass and no cache.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.linear.quantise import rows_of
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.select import perturbed_scores

if TYPE_CHECKING:
    from decoder.model.adapters import Adapters
    from decoder.model.target import TargetModel
    from decoder.sequence import Sequence

CANDIDATES = 64
"""Tokens considered for each mask."""


class MaskGuesses:
    """The candidates of the masks after one accept point, `CANDIDATES` tokens each.

    Args:
        target: with adapters, which turn states into logits.
        states: [k, D], of the masks; row i predicts the token i + 2 positions after the point.
        last: the token after the point.
    """

    def __init__(self, target: TargetModel, states: torch.Tensor, last: int) -> None:
        assert target.adapters is not None, "only a target with adapters has adaptive rows"
        self._adapters: Adapters = target.adapters
        self._model = target.model
        self._states = states
        self._before: list[int] = []
        """The token before each mask's prediction, for which its candidates were computed."""
        self._ids, self._scores, mass = self._candidates(last)
        self._vocab_size = target.vocab_size
        self._mass: list[float] = mass.tolist()
        self._tokens: list[list[int]] = self._ids.tolist()

    def __len__(self) -> int:
        return len(self._states)

    @torch.inference_mode()
    def _candidates(self, last: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Candidates [k, n], their logits, and their total probability [k], each mask conditioned on the best token of
        the mask before it."""
        ids, scores, mass = [], [], []
        for mask, state in enumerate(self._states):
            self._before.append(last)
            conditioned = self._adapters.combined(mask, state, self._model.get_input_embeddings().weight[last])
            logits = self._adapters.logits(self._model, conditioned[None])[0]  # [V] or [draft vocabulary]
            best = logits.topk(min(CANDIDATES, len(logits)))
            ids.append(best.indices if self._adapters.tokens is None else self._adapters.tokens[best.indices])
            scores.append(best.values)
            mass.append((best.values.double().logsumexp(-1) - logits.double().logsumexp(-1)).exp())
            last = int(ids[-1][0])
        return torch.stack(ids), torch.stack(scores), torch.stack(mass)

    @torch.inference_mode()
    def scores(self, mask: int, before: int) -> torch.Tensor:
        """Logits of a mask's candidates given the token before them, [n]."""
        if before == self._before[mask] or self._adapters.conditioner is None:
            return self._scores[mask]
        return self._logits_of(mask, before, self._ids[mask])

    @torch.inference_mode()
    def _logits_of(self, mask: int, before: int, ids: torch.Tensor) -> torch.Tensor:
        """A mask's logits of any tokens, [n]."""
        embedding = self._model.get_input_embeddings().weight[before]
        state = self._adapters.combined(mask, self._states[mask], embedding)
        head = self._model.get_output_embeddings()
        scores: torch.Tensor = rows_of(head, ids) @ state
        return scores if head.bias is None else scores + head.bias[ids]

    def best(
        self, mask: int, before: int, params: SamplingParams, position: int, history: History, branches: int
    ) -> list[tuple[float, int]]:
        """The most likely tokens at an absolute position: (chance, token), in descending order, at most `branches`.

        Tokens are ranked as `select` would rank them, with the answer's own noise. The target's logits are assumed to
        differ from the mask's by standard Gumbel noise, as in training by cross-entropy. In the scores that `select`
        compares at temperature T this noise has scale 1 / T, so a chance is the softmax of T times the score, and of
        the logits for greedy answers.
        """
        tokens = self._tokens[mask]
        if params.plain_greedy:
            scores = self.scores(mask, before).to("cpu", torch.float64).numpy()
        else:
            tokens, scores = self._perturbed(mask, before, params, position, history)
            if not tokens:
                return []
        weights = np.exp(scores - scores.max())
        order = np.argsort(-weights, kind="stable")[:branches].tolist()
        total = float(weights.sum()) / self._mass[mask]
        return [(float(weights[index]) / total, tokens[index]) for index in order if weights[index] > 0.0]

    def _perturbed(
        self, mask: int, before: int, params: SamplingParams, position: int, history: History
    ) -> tuple[list[int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
        """The candidates and the tokens with a positive bias, and T times their `select.perturbed_scores` (the scores
        themselves at temperature 0)."""
        logits = torch.full((self._vocab_size,), float("-inf"), dtype=torch.float64)
        raised = [token for token, bias in params.logit_bias.items() if bias > 0.0]
        if raised:
            logits[raised] = self._logits_of(mask, before, torch.tensor(raised, device=self._ids.device)).to(
                "cpu", logits.dtype
            )
        logits[self._ids[mask].cpu()] = self.scores(mask, before).to("cpu", logits.dtype)
        banned = [token for token, bias in params.logit_bias.items() if bias == float("-inf")]
        logits[banned] = float("-inf")
        if not bool(torch.isfinite(logits).any()):
            return [], np.empty(0)
        tokens, scores = perturbed_scores(logits, params, position, history)
        finite = np.isfinite(scores)
        return tokens[finite].tolist(), scores[finite] * (params.temperature or 1.0)


def grow(
    sequence: Sequence,
    guesses: MaskGuesses,
    source: TokenSource,
    nodes: int,
    branches: int,
    least: float,
) -> DraftTree:
    """The `nodes` most likely nodes, parents before children, in descending order of `values`.

    Args:
        branches: most children of a node.
        least: smallest value of a node.
    """
    tree = DraftTree()
    depth = min(len(guesses), sequence.remaining - 1)  # a pass yields one more token than it accepts
    reads, params = sequence.params.reads_history, sequence.params

    def children(node: int) -> Iterator[tuple[float, int, int]]:
        mask = 0 if node == ROOT else tree.depths[node]
        if mask >= depth:
            return
        before = sequence.last_token if node == ROOT else tree.tokens[node]
        history = _with_path(sequence.history, tree, node) if reads else sequence.history
        value = 1.0 if node == ROOT else tree.values[node]
        for chance, token in guesses.best(mask, before, params, sequence.position + mask, history, branches):
            if value * chance >= least:
                yield -value * chance, node, token

    candidates = list(children(ROOT)) if nodes > 0 else []
    heapq.heapify(candidates)
    while candidates and len(tree) < nodes:
        negative_value, parent, token = heapq.heappop(candidates)
        node = tree.add(token, parent, source)
        tree.values.append(-negative_value)
        if len(tree) < nodes:
            for child in children(node):
                heapq.heappush(candidates, child)
    return tree


def _with_path(history: History, tree: DraftTree, node: int) -> History:
    """A copy of the history, extended by a node's path."""
    path: list[int] = []
    while node != ROOT:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    copied = history.copy()
    for token in reversed(path):
        copied.push(token)
    return copied
