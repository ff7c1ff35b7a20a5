"""One answer, from its job to its last event.

Knows segments, text and events; knows no Celery and no scheduling. An answer that another worker began continues after
the ids in its stream: they are prefilled with the prompt, and the next id is the same as without the interruption.

Next: `Runtime.submit` (`runtime.py`) decodes, `AnswerStream.write` (`workers/sessions/streams.py`) publishes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from decoder import Corpus, DecodeStats, PromptSegment, RepetitionStop, SamplingParams
from workers.answers.assembly import assemble
from workers.answers.counts import speculation, usage
from workers.answers.ending import decided, finish, state_answer
from workers.answers.notes import noted
from workers.answers.relay import Relay
from workers.broker.messages import (
    DoneEvent,
    GenerateJob,
    Sampling,
    Segment,
    WaitingEvent,
)
from workers.errors import AnswerEnded, AnswerMissing, AnswerTaken
from workers.grammar.grammars import Grammars
from workers.sessions.answer_store import AnswerStore, store_name
from workers.sessions.costs import Cost, TokenCounts, added
from workers.sessions.passage_ids import PassageIds
from workers.sessions.streams import AnswerStream
from workers.support.words.asking import begins
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens
from workers.worker import second_answer
from workers.worker.kv_store import Owner, answer_rows, rewrite_rows
from workers.worker.runtime import GenerationHandle, Runtime
from workers.worker.supporter import Supporter

if TYPE_CHECKING:
    from decoder.sampling.grammar import Grammar

logger = logging.getLogger(__name__)


def _owner(job: GenerateJob, parts: Sequence[PromptSegment]) -> Owner | None:
    """The owner of the answer's rows: its session, or the answer itself, whose rows a repeated conversation copies.

    None for a rewrite outside sessions; the rewrite of a session's question has its own slot.
    """
    if job.rewrites is not None:
        return Owner(job.owner, rewrite_rows(job.rewrites), minor=True) if job.rewrites else None
    if job.session_id:
        return Owner(job.owner, job.session_id, _shared(parts))
    return Owner(job.owner, answer_rows(job.answer_id))


def _shared(parts: Sequence[PromptSegment]) -> int:
    """Number of tokens of control pieces and the system prompt at the prompt's beginning."""
    count = 0
    for part in parts:
        if part.kind not in ("template", "system"):
            break
        count += part.length
    return count


def sampling_params(sampling: Sampling, tokens: Tokens, grammar: Grammar | None = None) -> SamplingParams:
    """A job's sampling as the decoder's parameters; the tokenizer's end tokens also end the answer.

    Raises:
        ValueError: a value is out of range, or a bias names an unknown token; the message says which.
    """
    unknown = [token for token in sampling.logit_bias if not 0 <= token < tokens.vocab_size]
    if unknown:
        raise ValueError(
            f"logit_bias names token id {unknown[0]}; the ids of this model are 0 to {tokens.vocab_size - 1}"
        )
    values = sampling.model_dump()
    values["stop"] = tuple(sampling.stop)
    values["repetition"] = sampling.repetition and RepetitionStop(**sampling.repetition.model_dump())
    return SamplingParams(**values, stop_token_ids=tuple(sorted(tokens.eos_ids)), grammar=grammar)


def generate(
    job: GenerateJob,
    stream: AnswerStream,
    runtime: Runtime,
    tokens: Tokens,
    cancelled: Callable[[], bool] = lambda: False,
    store: AnswerStore | None = None,
    grammars: Grammars | None = None,
    passage_ids: PassageIds | None = None,
    supporter: Supporter | None = None,
    model: str = "",
) -> DoneEvent | None:
    """Generate the answer of `job` and write its events, the last one together with the session's turn.

    Where answers may be refused, the text is written only once that is decided: if the model is read, with its first
    token that does not repeat the question.

    Args:
        model: the engine's, as the operator names it; the answer's cost is counted under this name.

    Returns the last event; None if the answer is finished already or was erased.

    Raises:
        the engine's errors for this prompt, RuntimeClosed, and QueueUnavailable if Redis stays away.
    """
    started, started_at = time.perf_counter(), time.time()
    try:
        status, streamed = stream.start(job.session_id)
        if status != "running":
            return None
        before = stream.streamed() if streamed else []
        if job.stated is not None:
            relay = Relay(stream, TextStream(tokens), runtime.closing.wait, before)
            return state_answer(job, job.stated, relay, tokens, 1e3 * max(started_at - job.created, 0.0))
        passages = (passage_ids or PassageIds(None, tokens)).of_job(job)
        besides: list[GenerationHandle] = []  # what the model was asked besides the answer itself
        if job.parts:
            job = noted(job, partial(_notes, job, tokens, passages, runtime, cancelled, besides), stream, cancelled)
        prompt, parts = assemble(tokens, job.segments, job.edit.segment if job.edit else None, passages)
        checking = job.checking if supporter is not None else None
        refusing = checking is not None and checking.abstain == "refuse"
        twice = checking is not None and second_answer.is_possible(checking) and not before  # what was shown stays
        relay = Relay(stream, TextStream(tokens, job.sampling.stop), runtime.closing.wait, before, refusing or twice)
        if relay.ids:
            logger.info("continuing answer %s after %d ids", job.answer_id, len(relay.ids))
        grammar = (grammars or Grammars(tokens)).of_job(job)
        owner = _owner(job, parts)
        params = sampling_params(job.sampling, tokens, grammar)
        submit = partial(
            runtime.submit,
            prompt,
            cancelled=cancelled,
            segments=parts,
            drafter=job.speculation.drafter,
            max_nodes=job.speculation.max_nodes,
            corpora=corpora(job, tokens, store, passages),
            domain=f"{job.tenant}/{job.collection or ''}",
            waiting=lambda answers: relay.patiently(partial(stream.write, WaitingEvent(answers=answers))),
        )
        handle = submit(
            params,
            resumed=list(relay.ids),
            owner=owner,
            read=supporter.reads(job) if supporter is not None else frozenset(),
        )
        first_token: float | None = None
        refused: bool | None = None
        with closing(handle):
            for step in handle:
                relay.take(step)
                if first_token is None and step.tokens:
                    first_token = 1e3 * (time.perf_counter() - started)
                    refused = supporter.refuses(job, handle.states) if supporter is not None else None
                twice = twice and not refused and checking is not None and second_answer.may_follow(checking, relay.ids)
                refusable = refusing and (refused is not False or begins(job.question, relay.text))
                if relay.held and not (twice or refusable):
                    relay.show()
                if refused or relay.finish_reason is not None:
                    break
        waited = sum(one.waited_ms for one in (*besides, handle))
        stats = handle.stats or DecodeStats(prompt_tokens=len(prompt))
        cached = stats.cached_tokens
        prefill = stats.ms["prefill"]
        decoded = time.perf_counter()
        support = None
        if supporter is not None and relay.finish_reason != "cancelled":
            judge = partial(
                supporter.support,
                job,
                assemble=partial(_ids, tokens, passages),
                runtime=runtime,
                cancelled=cancelled,
                owner=owner,
                states=handle.states,
                asked=besides,
            )
            support = judge("" if refused else relay.text)
            if twice and checking and support and second_answer.is_wanted(checking, relay.ids, support):
                second_params = replace(params, openings=tuple(map(tuple, checking.openings)))
                second = second_answer.answer_again(
                    checking,
                    relay,
                    support,
                    Relay(stream, TextStream(tokens, job.sampling.stop), runtime.closing.wait, held=True),
                    partial(submit, second_params, owner=owner and replace(owner, borrows=True)),
                    judge,
                )
                decoded += second.decode_ms / 1e3
                if second.handle is not None:
                    prefill += 0.0 if second.handle.stats is None else second.handle.stats.ms["prefill"]
                    besides.append(second.handle if second.support is None else handle)
                if second.support is not None and second.handle is not None:
                    support, stats = second.support, second.handle.stats or stats
        generated = len(relay.ids)
        if refusing:
            support = decided(relay, support, job, tokens)
        elif relay.held:
            relay.show()
        elapsed = 1e3 * (time.perf_counter() - started)
        queued = 1e3 * max(started_at - job.created, 0.0) + waited
        done = DoneEvent(
            text=relay.text,
            ids=relay.ids,
            finish_reason=relay.finish_reason or "error",
            usage=usage(job, len(prompt), generated, stats, cached),
            speculation=speculation(job.speculation.drafter, stats),
            timings={
                "queued": queued,
                "prefill": prefill,
                "first_token": max((elapsed if first_token is None else first_token) - waited, 0.0),
                "decode": max(1e3 * (decoded - started) - waited - prefill, 0.0),
                "total": queued + elapsed - waited,
                **({"support": elapsed - 1e3 * (decoded - started)} if support else {}),
            },
            support=support,
        )
        counts = TokenCounts(len(prompt), stats.cached_tokens, generated)
        cost = Cost("decoder", "", model, added([counts, *map(_counts, besides)]))
        finish(job, relay, done, tokens, prompt, parts, cost)
        if store is not None and done.finish_reason != "cancelled" and job.rewrites is None:
            store.add(job.tenant, store_name(job.collection, tokens.hash), job.answer_id, done.ids)
    except (AnswerMissing, AnswerEnded, AnswerTaken) as error:
        logger.info("%s", error)
        return None
    return done


def _notes(
    job: GenerateJob,
    tokens: Tokens,
    passages: Mapping[str, Sequence[int]],
    runtime: Runtime,
    cancelled: Callable[[], bool],
    besides: list[GenerationHandle],
    part: Sequence[Segment],
) -> str:
    """The model's notes on a part: the likeliest text, up to `job.notes_tokens` tokens."""
    params = SamplingParams(max_tokens=job.notes_tokens, stop_token_ids=tuple(sorted(tokens.eos_ids)))
    handle = runtime.submit(_ids(tokens, passages, part), params, cancelled, drafter=job.speculation.drafter)
    besides.append(handle)
    text = TextStream(tokens)
    with closing(handle):
        written = [text.push(token)[0] for step in handle for token in step.tokens]
    return ("".join(written) + text.flush()).strip()


def _counts(handle: GenerationHandle) -> TokenCounts:
    stats = handle.stats
    return TokenCounts() if stats is None else TokenCounts(stats.prompt_tokens, stats.cached_tokens, stats.tokens)


def _ids(tokens: Tokens, passages: Mapping[str, Sequence[int]], segments: Sequence[Segment]) -> list[int]:
    return assemble(tokens, segments, None, passages)[0]


def corpora(
    job: GenerateJob, tokens: Tokens, store: AnswerStore | None, passages: Mapping[str, Sequence[int]]
) -> list[Corpus]:
    """Copy sources besides the prompt.

    `job.unread` in order, then the prediction (at `job.predicted_segment`), then earlier answers. `passages` has
    the ids of the unread passages' texts.
    """
    sources = [Corpus("unread", tuple(passages[passage["text"]]), str(passage["chunk_id"])) for passage in job.unread]
    if job.prediction is not None:
        sources.append(Corpus("prediction", tuple(tokens.encode_content(job.prediction).ids), "prediction"))
    if store is None:
        return sources
    earlier = store.read(job.tenant, store_name(job.collection, tokens.hash))
    # The latest last: of equally long matches the index prefers the last.
    return sources + [Corpus("store", tuple(ids), answer_id) for answer_id, ids in reversed(earlier)]
