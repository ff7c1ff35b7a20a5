"""The engine: prompts in, tokens out. The decode loop is `step`: draft, one target pass, walk, keep, commit.

Knows target, drafters and sequences; knows no text (stop strings come with a detokenizer), no HTTP, no Redis.

Next: `Drafter.draft` (`drafters/`), `TargetModel.forward_tree` (`model/target.py`), `verify` (`verify.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as Ids
from typing import Unpack

from decoder.drafters import make_drafter
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import DraftTree
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.pass_parts import PromptChunk, TreePass
from decoder.model.prefix import KeptRows
from decoder.model.target import PREFILL_CHUNK, TargetModel
from decoder.planning.budget import choose
from decoder.request import Request, RequestOptions
from decoder.sampling.near_ties import THRESHOLDS
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import Detokenize, StopStrings
from decoder.sequence import PassLoad, Step
from decoder.verify import Readings, draw_ahead, read_ahead, verify

MIXED_CHUNK = 128
"""Most prompt tokens in a pass while other answers wait for their next token."""
Part = tuple[Generation, TreePass | PromptChunk]
"""A sequence and its part of a pass."""


class Engine:
    """Generates answers with one target model.

    Args:
        target: the model whose output is preserved.
        drafter: name of the default drafter.
        eos_token_ids: tokens that end an answer.
        detokenize: ids -> text, for stop strings; a request may have its own.
        context: what drafters share besides the target, such as a draft model.
        near_tie: margin in logits below which answers with `exact="strict"` decide a token again; by default the entry
            of `near_ties.THRESHOLDS` for the target's dtype.

    Raises:
        UnknownDrafter, DrafterUnavailable: the default drafter does not exist, or cannot run here.
        ValueError: near_tie is below 0.
    """

    def __init__(
        self,
        target: TargetModel,
        drafter: str = "auto",
        eos_token_ids: Ids[int] = (),
        detokenize: Detokenize | None = None,
        context: DrafterContext | None = None,
        near_tie: float | None = None,
    ) -> None:
        self.target = target
        self.context = context or DrafterContext()
        self.context.target = target
        make_drafter(drafter).setup(self.context)  # a drafter that cannot run fails here, not at the first request
        self.drafter = drafter
        self.eos_token_ids = frozenset(eos_token_ids)
        self.detokenize = detokenize
        if near_tie is not None and not near_tie >= 0:
            raise ValueError(f"near_tie must be 0 or more, got {near_tie}")
        self.near_tie = THRESHOLDS[target.dtype] if near_tie is None else near_tie

    def generate(
        self, prompt_ids: Ids[int], params: SamplingParams | None = None, **options: Unpack[RequestOptions]
    ) -> Iterator[Step]:
        """Generate one answer, step by step. Arguments and errors as `start`."""
        sequence = self.start(prompt_ids, params, **options)
        yield self.prefill(sequence)
        while not sequence.finished:
            yield self.step([sequence])[0]

    def start(
        self, prompt_ids: Ids[int], params: SamplingParams | None = None, **options: Unpack[RequestOptions]
    ) -> Generation:
        """Check a request and set up its sequence; runs no model. Arguments are the fields of `Request`.

        Raises:
            EmptyPrompt, InvalidToken, PromptTooLong, ValueError: as in `Request.check`.
            UnknownDrafter, DrafterUnavailable: the drafter does not exist, or cannot run here.
            ValueError: the prefix is already in use, or the answer ends within the `resumed` tokens.
        """
        prompt = [int(token) for token in prompt_ids]
        request = Request(prompt, params or SamplingParams(), **options)
        request.check(self.target, self.detokenize)
        params, reuse, detokenize = request.params, request.reuse, request.detokenize or self.detokenize
        drafter = request.drafter
        if not isinstance(drafter, Drafter):
            drafter = make_drafter(drafter or self.drafter)
        drafter.setup(self.context)
        input_ids = [*prompt, *(int(token) for token in request.resumed)]
        capacity = min(len(prompt) + params.max_tokens + request.nodes + 1, self.target.max_positions)
        length = reuse.usable(input_ids, drafter.required_outputs) if reuse is not None else 0
        if reuse is not None and length:
            reuse.cut(length)
            reuse.cache.resize(capacity)
        else:
            reuse = None
        sequence = Generation(
            prompt,
            params,
            request.segments,
            drafter,
            reuse.cache if reuse is not None else self.target.new_cache(capacity),
            frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else self.eos_token_ids),
            StopStrings(params.stop, detokenize) if params.stop and detokenize else None,
            max_nodes=request.nodes,
            corpora=request.corpora,
            domain=request.domain,
            near_tie=self.near_tie if params.exact == "strict" and not self.target.bitwise else None,
            resumed=input_ids[len(prompt) :],
            kept_rows=KeptRows(None if reuse is None else reuse.states) if request.keep else None,
            read=request.read,
        )
        if self.context.drafting is not None:
            sequence.gate.drafting = self.context.drafting
        if reuse is not None:
            reuse.used = True
            sequence.prefill_outputs.append(reuse.outputs(drafter.required_outputs))
            sequence.stats.cached_tokens = min(length, len(prompt))
        return sequence

    def prefill(self, sequence: Generation) -> Step:
        """Process the prompt, in passes of its own, and commit the first token."""
        step = self.step([sequence])[0]
        while not (sequence.prefilled or sequence.finished):
            step = self.step([sequence])[0]
        return step

    def step(self, sequences: Ids[Generation]) -> list[Step]:
        """Advance every sequence by one draft-verify cycle or by a chunk of its prompt, all in one target pass.

        Cancelled sequences finish without a pass. After any other exception than ValueError the sequences must not be
        stepped again; start new ones, with the tokens so far as `resumed`.

        Returns:
            one Step per sequence, in order. A step has no tokens if the prompt is not fully prefilled, or if the first
            choice of a strict answer was a near-tie.

        Raises:
            ValueError: a sequence occurs twice.
        """
        if len({id(sequence) for sequence in sequences}) < len(sequences):
            raise ValueError("a sequence occurs twice in this step; give each sequence once")
        running = [sequence for sequence in sequences if not sequence.finish_if_cancelled()]
        parts = self._draft(running)  # drafts, or prompt chunks
        started, captured = time.perf_counter(), self.target.captured
        results = self.target.forward_tree([part for _, part in parts]) if parts else []  # one target pass
        draw_ahead([sequence for sequence, _ in parts], self.target.vocab_size)  # a GPU runs meanwhile
        self.target.synchronize()
        readings = read_ahead([outputs.logits for outputs in results], [sequence for sequence, _ in parts])
        passed = time.perf_counter()
        walks = [
            self._walk(s, part, outputs, read)
            for (s, part), outputs, read in zip(parts, results, readings, strict=True)
        ]  # the accept rule
        verified = time.perf_counter()
        steps = {
            id(s): self._commit(s, part, accepted, outputs)  # keep, extend, observe
            for (s, part), accepted, outputs in zip(parts, walks, results, strict=True)
        }
        chosen = sum(len(accepted.tokens) for accepted in walks if accepted is not None)
        # Plain decoding takes as long to choose a token, so the pass is charged for one choice per sequence.
        cost = passed - started + (verified - passed) * len(parts) / max(chosen, len(parts), 1)
        self._account(parts, verified - started, time.perf_counter() - verified)
        if captured == self.target.captured:  # a pass that captures a graph says nothing of its size's cost
            self._learn_cost(parts, cost)
        return [steps.get(id(sequence)) or Step((), (), sequence.finish_reason) for sequence in sequences]

    def save(self) -> None:
        """Store what drafters learned, if the engine has a folder for it."""
        self.context.save()

    def _draft(self, running: Ids[Generation]) -> list[Part]:
        """Every sequence's part of the pass. Trees with values are pruned to the nodes that pay in this pass.

        Prompts are prefilled in order of arrival, in chunks that keep the pass short while others wait for tokens.
        """
        decoding = [sequence for sequence in running if sequence.prefilled]
        room = MIXED_CHUNK if decoding else PREFILL_CHUNK
        parts: list[Part] = []
        for sequence in (sequence for sequence in running if not sequence.prefilled):
            ids = sequence.input_ids[sequence.cache.length : sequence.cache.length + room]
            if sequence.near_tie is not None and sequence.tokens and len(ids) > 1:
                ids = ids[: len(sequence.input_ids) - 1 - sequence.cache.length]  # the last one runs in its own pass
            if ids:
                parts.append((sequence, PromptChunk(sequence.cache, ids, sequence.prefill_required)))
                room -= len(ids)
        trees = []
        load = PassLoad(len(decoding), sum(sequence.cache.length for sequence in decoding))
        token_s = self._token_s(load)
        for sequence in decoding:
            sequence.pass_load = load
            started = time.perf_counter()
            budget = min(sequence.max_nodes, self.target.max_positions - sequence.position)
            sequence.resting = self._rests(sequence, token_s)
            drafts = sequence.gate.drafted = budget > 0 and sequence.may_draft and not sequence.resting
            tree = sequence.drafter.draft(sequence, budget).pruned(budget) if drafts else DraftTree()
            if not sequence.drafter.valued:
                tree.values = []  # verified whole, as in the drafter's paper
            trees.append(tree)
            self._record_drafting(sequence, time.perf_counter() - started)
        if any(tree.values for tree in trees):
            costs = self.context.cost.costs(load.cached_tokens, load.sequences, sum(map(len, trees)))
            trees = [tree.pruned(nodes) for tree, nodes in zip(trees, choose(trees, costs), strict=True)]
        for sequence in decoding:
            sequence.pass_load = load._replace(nodes=sum(map(len, trees)))
        return parts + [
            (s, TreePass(s.cache, s.last_token, tree, s.required, self._masks(s, tree)))
            for s, tree in zip(decoding, trees, strict=True)
        ]

    def _token_s(self, load: PassLoad) -> float | None:
        """Seconds that plain decoding takes for one token in this pass; None where no draft pays."""
        if not load.sequences or not self.context.cost.drafts_pay(load.cached_tokens, load.sequences):
            return None
        return self.context.cost.costs(load.cached_tokens, load.sequences, 0)[0] / load.sequences

    def _rests(self, sequence: Generation, token_s: float | None) -> bool:
        """Whether a sequence's drafter rests in this step: drafting would take longer than it is likely to save."""
        if not sequence.drafter.may_rest or not sequence.may_draft:
            return False
        return token_s is None or (self.context.drafting is not None and not sequence.gate.opens(token_s))

    def _record_drafting(self, sequence: Generation, seconds: float) -> None:
        """Add the time that a draft took to the stats, and tell the gate."""
        sequence.stats.ms["draft"] += 1e3 * seconds
        sequence.gate.seconds = self.context.cost.normalised(seconds)

    def _teach_gate(self, sequence: Generation, added: int, nodes: int, committing: float) -> None:
        """Tell the gate what a draft added, less what its nodes took of the pass, and the seconds of its commit."""
        if self.context.drafting is None or not sequence.drafter.may_rest:
            return
        load = sequence.pass_load
        plain, *_, wide = self.context.cost.costs(load.cached_tokens, load.sequences, max(load.nodes, 1))
        price = (wide - plain) * nodes / max(load.nodes, 1) * load.sequences / plain
        sequence.gate.learn(added - price, self.context.cost.normalised(committing))

    def _masks(self, sequence: Generation, tree: DraftTree) -> MaskChains:
        """The adaptive rows that a sequence's drafter adds to its tree; none if it may not draft."""
        if not sequence.may_draft:
            return NO_MASKS
        masks = sequence.drafter.masks(sequence, tree)
        return masks.within(tree, self.target.max_positions - 1 - sequence.cache.length) if masks else NO_MASKS

    def _walk(
        self, sequence: Generation, part: TreePass | PromptChunk, outputs: ForwardOutputs, read: Readings | None
    ) -> Accepted | None:
        """The tokens that the pass chose for one sequence; None while its prompt is not fully prefilled."""
        if isinstance(part, TreePass):
            final = part.rows == 1  # a one-row pass decides near-ties
            return verify(part.tree, outputs.logits, sequence, None if final else sequence.near_tie, read)
        prefilled = part.cache.length + len(part.ids) == len(sequence.input_ids)
        return verify(DraftTree(), outputs.logits, sequence, readings=read) if prefilled else None

    def _commit(
        self, sequence: Generation, part: TreePass | PromptChunk, accepted: Accepted | None, outputs: ForwardOutputs
    ) -> Step:
        """Keep the accepted rows, commit the tokens, and let the drafter observe the step."""
        tree = part.tree if isinstance(part, TreePass) else DraftTree()
        if isinstance(part, PromptChunk):
            sequence.cache.keep_all()
            sequence.prefill_outputs.append(outputs)
            if accepted is None:
                return Step((), (), None)
            outputs, sequence.prefill_outputs = ForwardOutputs.joined(sequence.prefill_outputs), []
            sequence.prefilled = True
            sequence.read(outputs)
            if sequence.kept_rows is not None:
                sequence.kept_rows.prompt(outputs)
        assert accepted is not None, "only a prompt chunk chooses no token"
        started = time.perf_counter()
        tokens = sequence.extend(accepted.tokens)
        sources = accepted.sources[: len(tokens)]
        if isinstance(part, TreePass):
            if tokens:
                sequence.cache.keep(accepted.path[: len(tokens) - 1])
            else:
                sequence.cache.drop()
            sequence.stats.record(tree, [source for source in sources if source is not None])
            required, path = sequence.drafter.required_outputs, accepted.path[: len(accepted.tokens) - 1]
            outputs = outputs.along(path, required.all_logits, required.tree_logits)
            if sequence.kept_rows is not None:
                sequence.kept_rows.step(outputs, len(tokens))
        if sequence.near_tie is not None:
            sequence.record_near_tie(accepted)
        if tokens and sequence.resting:
            sequence.drafter.rest(sequence, accepted)
        elif tokens:
            sequence.drafter.observe(sequence, tree, accepted, outputs)
            if isinstance(part, TreePass):
                self._teach_gate(sequence, len(tokens) - 1, len(tree), time.perf_counter() - started)
        logprobs = tuple(accepted.logprobs[: len(tokens)])
        return Step(tuple(tokens), tuple(sources), sequence.finish_reason, logprobs)

    def _account(self, parts: Ids[Part], pass_s: float, commit_s: float) -> None:
        """Add the times to the sequences' stats, by rows."""
        rows = [part.rows for _, part in parts]
        for (sequence, part), count in zip(parts, rows, strict=True):
            pass_ms = 1e3 * pass_s * count / sum(rows)
            sequence.stats.ms["verify" if isinstance(part, TreePass) else "prefill"] += pass_ms
            sequence.stats.ms["draft"] += 1e3 * commit_s / len(parts)

    def _learn_cost(self, parts: Ids[Part], cost_s: float) -> None:
        """Update the cost curve if a drafter uses it."""
        only_trees = all(isinstance(part, TreePass) for _, part in parts)
        if only_trees and any(sequence.drafter.valued for sequence, _ in parts):
            cached = parts[0][0].pass_load.cached_tokens
            self.context.cost.observe(sum(part.rows for _, part in parts), cached, len(parts), cost_s)
