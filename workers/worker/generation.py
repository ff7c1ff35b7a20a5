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
from functools import partial
from typing import TYPE_CHECKING

from decoder import Corpus, DecodeStats, PromptSegment, RepetitionStop, SamplingParams
from workers.broker.messages import (
    DoneEvent,
    GenerateJob,
    Sampling,
    Segment,
    Stated,
    Support,
    TokenEvent,
    TurnRecord,
)
from workers.errors import AnswerEnded, AnswerMissing, AnswerTaken
from workers.grammar.grammars import Grammars
from workers.sessions.answer_store import AnswerStore, store_name
from workers.sessions.passage_ids import PassageIds
from workers.sessions.streams import AnswerStream
from workers.sessions.token_log import SessionLog
from workers.support.evidence import begins
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens
from workers.worker.counts import speculation, usage
from workers.worker.kv_store import Owner, answer_rows, rewrite_rows
from workers.worker.notes import noted
from workers.worker.relay import Relay
from workers.worker.runtime import Runtime
from workers.worker.supporter import Supporter

if TYPE_CHECKING:
    from decoder.sampling.grammar import Grammar

logger = logging.getLogger(__name__)

COPIED_LIKE = {"edited": "answer", "notes": "passage"}
"""Kinds of segments that drafters treat as others: answers of earlier edits are part of the conversation."""


def assemble(
    tokens: Tokens,
    segments: Sequence[Segment],
    edited: int | None = None,
    passages: Mapping[str, Sequence[int]] | None = None,
) -> tuple[list[int], list[PromptSegment]]:
    """The prompt's ids and its segments' lengths, one for each segment of the job, in order.

    Control text is tokenized with control tokens, content without; a segment's own ids are used as they are.

    Args:
        edited: index of the answer under edit; the drafter begins to copy there.
        passages: ids of passages' texts; missing ones are tokenized.
    """
    prompt: list[int] = []
    parts: list[PromptSegment] = []
    for index, segment in enumerate(segments):
        ids: Sequence[int]
        if segment.ids is not None:
            ids = segment.ids
        elif segment.kind == "template":
            ids = tokens.encode_template(segment.text)
        else:
            ids = (passages or {}).get(segment.text) or tokens.encode_content(segment.text).ids
        prompt += ids
        kind = COPIED_LIKE.get(segment.kind, segment.kind)
        parts.append(PromptSegment("edited" if index == edited else kind, len(ids), segment.key))
    return prompt, parts


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
) -> DoneEvent | None:
    """Generate the answer of `job` and write its events, the last one together with the session's turn.

    Where answers may be refused, the text is written only once that is decided: if the model is read, with its first
    token that does not repeat the question.

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
            return _state(job, job.stated, relay, tokens, 1e3 * max(started_at - job.created, 0.0))
        passages = (passage_ids or PassageIds(None, tokens)).of_job(job)
        if job.parts:
            job = noted(job, partial(_ids, tokens, passages), stream, runtime, tokens, cancelled)
        prompt, parts = assemble(tokens, job.segments, job.edit.segment if job.edit else None, passages)
        refusing = job.checking is not None and job.checking.abstain == "refuse" and supporter is not None
        relay = Relay(stream, TextStream(tokens, job.sampling.stop), runtime.closing.wait, before, refusing)
        if relay.ids:
            logger.info("continuing answer %s after %d ids", job.answer_id, len(relay.ids))
        grammar = (grammars or Grammars(tokens)).of_job(job)
        owner = _owner(job, parts)
        handle = runtime.submit(
            prompt,
            sampling_params(job.sampling, tokens, grammar),
            cancelled,
            segments=parts,
            drafter=job.speculation.drafter,
            max_nodes=job.speculation.max_nodes,
            corpora=corpora(job, tokens, store, passages),
            domain=f"{job.tenant}/{job.collection or ''}",
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
                if relay.held and refused is False and not begins(job.question, relay.text):
                    relay.show()
                if refused or relay.finish_reason is not None:
                    break
        stats = handle.stats or DecodeStats(prompt_tokens=len(prompt))
        decoded = time.perf_counter()
        support = None
        if supporter is not None and relay.finish_reason != "cancelled":
            ids_of = partial(_ids, tokens, passages)
            text = "" if refused else relay.text
            begun = bool(before)
            support = supporter.support(job, text, ids_of, runtime, cancelled, owner, handle.states, begun)
        generated = len(relay.ids)
        if refusing:
            support = _decided(relay, support, job, tokens)
        elapsed = 1e3 * (time.perf_counter() - started)
        queued = 1e3 * max(started_at - job.created, 0.0)
        done = DoneEvent(
            text=relay.text,
            ids=relay.ids,
            finish_reason=relay.finish_reason or "error",
            usage=usage(job, len(prompt), generated, stats),
            speculation=speculation(job.speculation.drafter, stats),
            timings={
                "queued": queued,
                "prefill": stats.ms["prefill"],
                "first_token": elapsed if first_token is None else first_token,
                "decode": max(1e3 * (decoded - started) - stats.ms["prefill"], 0.0),
                "total": queued + elapsed,
                **({"support": elapsed - 1e3 * (decoded - started)} if support else {}),
            },
            support=support,
        )
        _finish(job, relay, done, tokens, prompt, parts)
        if store is not None and done.finish_reason != "cancelled" and job.rewrites is None:
            store.add(job.tenant, store_name(job.collection, tokens.hash), job.answer_id, done.ids)
    except (AnswerMissing, AnswerEnded, AnswerTaken) as error:
        logger.info("%s", error)
        return None
    return done


def _state(job: GenerateJob, stated: Stated, relay: Relay, tokens: Tokens, queued: float) -> DoneEvent:
    """Write an answer that the service states itself, and its turn; the engine does nothing."""
    prompt, parts = assemble(tokens, job.segments)
    relay.replace(*_spelt(stated.text, tokens))
    relay.show()
    stats = DecodeStats()
    done = DoneEvent(
        text=relay.text,
        ids=relay.ids,
        finish_reason="stop",
        usage=usage(job, 0, len(relay.ids), stats),
        speculation=speculation(job.speculation.drafter, stats),
        timings={"queued": queued, "prefill": 0.0, "first_token": 0.0, "decode": 0.0, "total": queued},
        support=Support(support=1.0, answerable=1.0, calibrated=True, sentences=stated.sentences),
    )
    _finish(job, relay, done, tokens, prompt, parts)
    return done


def _spelt(text: str, tokens: Tokens) -> tuple[list[int], list[str]]:
    """The ids of a text, and their texts: the first one has the whole text."""
    ids = tokens.encode_content(text).ids
    return ids, [text, *[""] * (len(ids) - 1)]


def _ids(tokens: Tokens, passages: Mapping[str, Sequence[int]], segments: Sequence[Segment]) -> list[int]:
    return assemble(tokens, segments, None, passages)[0]


def _decided(relay: Relay, support: Support | None, job: GenerateJob, tokens: Tokens) -> Support | None:
    """Write what was held back: the answer, the refusal in its place, or nothing of a cancelled answer.

    What was shown stays: an answer of which another worker wrote a part is not refused, but warned of.
    """
    if relay.finish_reason == "cancelled":
        if not relay.written:
            relay.replace([], [])
    elif support is not None and support.abstained == "refused" and job.checking is not None:
        ids, texts = _spelt(job.checking.refusal, tokens)
        if relay.ids[: relay.written] == ids[: relay.written]:
            relay.replace(ids, texts)
        else:
            support = support.model_copy(update={"abstained": "warned"})
    relay.show()
    return support


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


def _finish(
    job: GenerateJob,
    relay: Relay,
    done: DoneEvent,
    tokens: Tokens,
    prompt: list[int],
    parts: Sequence[PromptSegment],
) -> None:
    pending = TokenEvent(t=len(relay.ids), ids=[], text=relay.pending) if relay.pending else None
    turn, log = _turn(job, done, tokens), None
    if turn is not None:
        *added, answer = turn.segments
        ids = answer.ids or []
        tiles = [(one.kind, one.key, part.length) for one, part in zip(job.segments, parts, strict=True)]
        log = SessionLog(tokens.hash, [*prompt, *ids], [*tiles, ("answer", answer.key, len(ids))], job.new_from)
        # The answer's ids are in the log; reading the turn restores them.
        turn = turn.model_copy(update={"segments": [*added, answer.model_copy(update={"ids": None})]})

    def write() -> None:
        if not relay.stream.finish(
            done, pending=pending, session_id=job.session_id, turn=turn, turns_before=job.turn, log=log
        ):
            logger.warning("answer %s does not follow its session's last turn and is not added to it", job.answer_id)

    relay.patiently(write)


def _turn(job: GenerateJob, done: DoneEvent, tokens: Tokens) -> TurnRecord | None:
    """The finished turn; None for an answer without a session, or detached from it (`turn` -1).

    The end token is omitted: the template's own closing piece follows in the next prompt.
    """
    if not job.session_id or job.turn == -1 or (done.finish_reason == "cancelled" and not done.ids):
        return None
    ids = done.ids[:-1] if done.ids and done.ids[-1] in tokens.eos_ids else done.ids
    answer = Segment(kind="answer", key=job.answer_id, text=done.text, ids=ids)
    return TurnRecord(
        answer_id=job.answer_id,
        question=job.question,
        base=job.edit.base if job.edit else None,
        instruction=job.edit.instruction if job.edit else None,
        retrieval_query=job.retrieval_query,
        forgotten=job.forgotten,
        gone=job.gone,
        segments=[*job.segments[job.new_from :], answer],
        passages=job.passages,
        created=job.created,
    )
