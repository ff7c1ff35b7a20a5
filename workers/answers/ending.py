"""The end of an answer: its last event, its turn in the session, and answers in place of the model's.

Knows jobs, streams and turns; knows no engine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from decoder import DecodeStats, PromptSegment
from workers.answers.assembly import assemble
from workers.answers.counts import speculation, usage
from workers.answers.relay import Relay
from workers.broker.messages import DoneEvent, GenerateJob, Segment, Stated, Support, TokenEvent, TurnRecord
from workers.sessions.costs import Cost
from workers.sessions.token_log import SessionLog
from workers.tokens.tokenizer import Tokens

logger = logging.getLogger(__name__)


def state_answer(job: GenerateJob, stated: Stated, relay: Relay, tokens: Tokens, queued: float) -> DoneEvent:
    """Write an answer that the service states itself, and its turn; the engine does nothing."""
    prompt, parts = assemble(tokens, job.segments)
    relay.replace(*spelt(stated.text, tokens))
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
    finish(job, relay, done, tokens, prompt, parts)
    return done


def spelt(text: str, tokens: Tokens) -> tuple[list[int], list[str]]:
    """The ids of a text, and their texts: the first one has the whole text."""
    ids = tokens.encode_content(text).ids
    return ids, [text, *[""] * (len(ids) - 1)]


def decided(relay: Relay, support: Support | None, job: GenerateJob, tokens: Tokens) -> Support | None:
    """Write what was held back: the answer, the refusal in its place, or nothing of a cancelled answer.

    What was shown stays: an answer of which another worker wrote a part is not refused, but warned of.
    """
    if relay.finish_reason == "cancelled":
        if not relay.written:
            relay.replace([], [])
    elif support is not None and support.abstained == "refused" and job.checking is not None:
        ids, texts = spelt(job.checking.refusal, tokens)
        if relay.ids[: relay.written] == ids[: relay.written]:
            relay.replace(ids, texts)
        else:
            support = support.model_copy(update={"abstained": "warned"})
    relay.show()
    return support


def finish(
    job: GenerateJob,
    relay: Relay,
    done: DoneEvent,
    tokens: Tokens,
    prompt: list[int],
    parts: Sequence[PromptSegment],
    cost: Cost | None = None,
) -> None:
    """Write the last event, the session's turn and what the answer cost; None for an answer that no model gave."""
    pending = TokenEvent(t=len(relay.ids), ids=[], text=relay.pending) if relay.pending else None
    turn, log = _turn(job, done, tokens), None
    if turn is not None:
        *added, answer = turn.segments
        ids = answer.ids or []
        tiles = [(one.kind, one.key, part.length) for one, part in zip(job.segments, parts, strict=True)]
        log = SessionLog(tokens.hash, [*prompt, *ids], [*tiles, ("answer", answer.key, len(ids))], job.new_from)
        if job.later:
            log = log.added()
        # The answer's ids are in the log; reading the turn restores them.
        turn = turn.model_copy(update={"segments": [*added, answer.model_copy(update={"ids": None})]})

    def write() -> None:
        if not relay.stream.finish(
            done, pending=pending, session_id=job.session_id, turn=turn, turns_before=job.turn, log=log, cost=cost
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
