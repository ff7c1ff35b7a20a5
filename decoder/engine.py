"""The engine: prompts in, tokens out. Its heart is `step`: draft, one target pass, walk, keep, commit.

Knows target, drafters and sequences; knows no text (stop strings come with a detokenizer), no HTTP, no Redis.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as Ids

from decoder.artifacts import Artifacts
from decoder.budget import choose
from decoder.drafters import make_drafter
from decoder.drafters.base import Drafter
from decoder.drafters.equipment import Equipment
from decoder.errors import EmptyPrompt, InvalidToken, PromptTooLong
from decoder.near_ties import THRESHOLDS, settle
from decoder.params import SamplingParams
from decoder.sequence import Corpus, PromptSegment, Sequence, Step
from decoder.stopping import Detokenize, StopStrings
from decoder.target import TargetModel, TreePass
from decoder.tree import DraftTree
from decoder.verify import Accepted, verify

MAX_NODES = 64
"""Node budget of a step where the request names none."""


class Engine:
    """Generates answers with one target model.

    Args:
        target: the model whose output is preserved.
        drafter: name of the drafter used where a request names none.
        eos_token_ids: tokens that end an answer.
        detokenize: ids -> text, for stop strings; a request may bring its own.
        equipment: what drafters share besides the target, such as a draft model.
        near_tie: margin in logits below which answers with `exact="strict"` decide a token again; that of
            `near_ties.THRESHOLDS` for the target's dtype where None.
    """

    def __init__(
        self,
        target: TargetModel,
        drafter: str = "auto",
        eos_token_ids: Ids[int] = (),
        detokenize: Detokenize | None = None,
        equipment: Equipment | None = None,
        near_tie: float | None = None,
    ) -> None:
        self.target = target
        self.equipment = equipment or Equipment()
        self.equipment.target = target
        make_drafter(drafter).equip(self.equipment)  # a name that cannot work fails here, not at the first request
        self.drafter = drafter
        self.eos_token_ids = frozenset(eos_token_ids)
        self.detokenize = detokenize
        if near_tie is not None and not near_tie >= 0:
            raise ValueError(f"near_tie must be 0 or more, got {near_tie}")
        self.near_tie = THRESHOLDS[target.dtype] if near_tie is None else near_tie

    def generate(
        self,
        prompt_ids: Ids[int],
        params: SamplingParams | None = None,
        *,
        segments: Ids[PromptSegment] = (),
        drafter: str | Drafter | None = None,
        detokenize: Detokenize | None = None,
        max_nodes: int | None = None,
        corpora: Ids[Corpus] = (),
        domain: str = "",
    ) -> Iterator[Step]:
        """Generate one answer, step by step. Arguments and errors as `start`."""
        sequence = self.start(
            prompt_ids,
            params,
            segments=segments,
            drafter=drafter,
            detokenize=detokenize,
            max_nodes=max_nodes,
            corpora=corpora,
            domain=domain,
        )
        yield self.prefill(sequence)
        while not sequence.finished:
            yield self.step([sequence])[0]

    def start(
        self,
        prompt_ids: Ids[int],
        params: SamplingParams | None = None,
        *,
        segments: Ids[PromptSegment] = (),
        drafter: str | Drafter | None = None,
        detokenize: Detokenize | None = None,
        max_nodes: int | None = None,
        corpora: Ids[Corpus] = (),
        domain: str = "",
    ) -> Sequence:
        """Check a request and set up its sequence; runs no model.

        Args:
            prompt_ids: the prompt's token ids.
            params: sampling parameters; greedy with 256 tokens by default.
            segments: tags that tile the prompt, for provenance; one untagged segment by default.
            drafter: a drafter's name, or a fresh drafter of one's own; "off" and "plain" draft nothing.
            detokenize: ids -> text; needed for `params.stop` where the engine has none.
            max_nodes: most draft nodes a step.
            corpora: tokens to copy from that are not in the prompt; only `auto` reads them.
            domain: whose acceptance `auto` goes by and learns, such as a collection's name.

        Raises:
            EmptyPrompt, InvalidToken, PromptTooLong, UnknownDrafter, DrafterUnavailable, or ValueError for segments
            that do not tile the prompt and stop strings without a detokenizer.
        """
        params = params or SamplingParams()
        prompt = [int(token) for token in prompt_ids]
        self._check(prompt, params, segments)
        detokenize = detokenize or self.detokenize
        if params.stop and detokenize is None:
            raise ValueError("stop strings need a detokenizer; pass detokenize=, or stop_token_ids instead")
        if max_nodes is not None and max_nodes < 0:
            raise ValueError(f"max_nodes must be 0 or more, got {max_nodes}")
        nodes = MAX_NODES if max_nodes is None else max_nodes
        chosen = make_drafter(drafter or self.drafter) if not isinstance(drafter, Drafter) else drafter
        chosen.equip(self.equipment)
        return Sequence(
            prompt,
            params,
            segments,
            chosen,
            self.target.new_cache(len(prompt) + params.max_tokens + nodes + 1),
            frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else self.eos_token_ids),
            StopStrings(params.stop, detokenize) if params.stop and detokenize else None,
            nodes,
            corpora,
            domain,
            near_tie=self.near_tie if params.exact == "strict" else None,
        )

    def prefill(self, sequence: Sequence) -> Step:
        """Process the prompt and commit the first token."""
        started = time.perf_counter()
        if sequence.finish_if_cancelled():
            return Step((), (), sequence.finish_reason)
        artifacts = self.target.prefill(sequence.prompt, sequence.cache, sequence.drafter.needs)
        accepted = verify(DraftTree(), artifacts.logits, sequence)
        sequence.stats.ms["prefill"] += 1e3 * (time.perf_counter() - started)
        return self._commit(sequence, DraftTree(), accepted, artifacts)

    def step(self, sequences: Ids[Sequence]) -> list[Step]:
        """Advance every sequence by one draft-verify cycle, all in one target pass.

        Cancelled sequences finish here without a pass. Returns one Step a sequence, in order; that of a strict
        sequence whose first choice was a near-tie holds no tokens.
        """
        running = [sequence for sequence in sequences if not sequence.finish_if_cancelled()]
        if not running:
            return [Step((), (), sequence.finish_reason) for sequence in sequences]
        trees = self._draft(running)  # draft
        started = time.perf_counter()
        pairs = list(zip(running, trees, strict=True))
        results = self.target.forward_tree(  # one target pass
            [TreePass(s.cache, s.last_token, tree, s.drafter.needs) for s, tree in pairs]
        )
        walks = [verify(tree, made.logits, s) for (s, tree), made in zip(pairs, results, strict=True)]  # accept rule
        verified = time.perf_counter()
        self._price(running, trees, verified - started)
        steps = {
            id(s): self._commit(s, tree, accepted, made)  # keep, extend, observe
            for (s, tree), accepted, made in zip(pairs, walks, results, strict=True)
        }
        for sequence in running:
            sequence.stats.ms["verify"] += 1e3 * (verified - started) / len(running)
            sequence.stats.ms["draft"] += 1e3 * (time.perf_counter() - verified) / len(running)
        return [steps.get(id(sequence)) or Step((), (), sequence.finish_reason) for sequence in sequences]

    def save(self) -> None:
        """Keep what drafters learned, where the engine was given a folder for it."""
        self.equipment.save()

    def _draft(self, running: Ids[Sequence]) -> list[DraftTree]:
        """Every sequence's tree; of valued ones only what is worth its time in this pass."""
        trees = []
        cached = sum(sequence.cache.length for sequence in running)
        for sequence in running:
            sequence.pass_sequences, sequence.pass_tokens = len(running), cached
            started = time.perf_counter()
            budget = min(sequence.max_nodes or 0, self.target.max_positions - sequence.position)
            drafts = budget > 0 and sequence.may_draft
            trees.append(sequence.drafter.draft(sequence, budget).pruned(budget) if drafts else DraftTree())
            sequence.stats.ms["draft"] += 1e3 * (time.perf_counter() - started)
        if any(tree.values for tree in trees):
            costs = self.equipment.cost.costs(cached, len(running), sum(map(len, trees)))
            trees = [tree.pruned(nodes) for tree, nodes in zip(trees, choose(trees, costs), strict=True)]
        return trees

    def _price(self, running: Ids[Sequence], trees: Ids[DraftTree], seconds: float) -> None:
        """Keep the cost curve true, where a drafter goes by it."""
        if any(sequence.drafter.valued for sequence in running):
            cached = sum(sequence.cache.length for sequence in running)
            self.equipment.cost.observe(len(running) + sum(map(len, trees)), cached, len(running), seconds)

    def _commit(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, artifacts: Artifacts) -> Step:
        prefill = sequence.cache.pending == 0
        tokens = sequence.extend(accepted.tokens)
        path = accepted.path[: len(tokens) - 1]
        sources = accepted.sources[: len(tokens)]
        if not prefill:
            if tokens:
                sequence.cache.keep(path)
            else:
                sequence.cache.drop()
            sequence.stats.record(tree, [source for source in sources if source is not None])
            artifacts = artifacts.kept(accepted.path[: len(accepted.tokens) - 1], sequence.drafter.needs.all_logits)
        if sequence.near_tie is not None:
            settle(sequence, accepted)
        if tokens:
            sequence.drafter.observe(sequence, tree, accepted, artifacts)
        return Step(tuple(tokens), tuple(sources), sequence.finish_reason)

    def _check(self, prompt: list[int], params: SamplingParams, segments: Ids[PromptSegment]) -> None:
        if not prompt:
            raise EmptyPrompt
        for token in (min(prompt), max(prompt), *params.logit_bias):
            if not 0 <= token < self.target.vocab_size:
                raise InvalidToken(token, self.target.vocab_size)
        if len(prompt) + params.max_tokens > self.target.max_positions:
            raise PromptTooLong(len(prompt), params.max_tokens, self.target.max_positions)
        if segments and sum(segment.length for segment in segments) != len(prompt):
            raise ValueError(
                f"segments cover {sum(segment.length for segment in segments)} tokens of a prompt of {len(prompt)}; "
                "they must tile it"
            )
