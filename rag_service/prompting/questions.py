"""A question in a session becomes a job: its prompt continues that of the earlier turns. Pure.

Knows prompts, options and retrieved passages; knows no Redis and no HTTP.

Next, from the pipeline: `Queue.enqueue_generate` (`workers/sessions/queue.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from rag_service.access.principal import Principal
from rag_service.contract.schemas import QueryRequest
from rag_service.prompting import prompt
from rag_service.prompting.checking import Support
from rag_service.prompting.documents import by_parts
from rag_service.prompting.generation_options import Repetitions, question_again, sampling, speculation
from rag_service.prompting.jobs import make_job
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import PromptTemplate
from workers.broker.messages import GenerateJob, Segment, TurnRecord
from workers.tokens.tokenizer import Tokens


def job(
    request: QueryRequest,
    retrieved: Retrieved,
    turns: Sequence[TurnRecord],
    tokens: Tokens,
    *,
    principal: Principal,
    session_id: str,
    answer_id: str,
    collection: str | None,
    window: int,
    max_tokens: int,
    template: PromptTemplate,
    grounded: bool,
    drafter: str,
    repetitions: Repetitions,
    support: Support | None,
    outdated: Collection[int] = (),
    unsupported: Collection[int] = (),
    revised: Segment | None = None,
    doubtful: bool = False,
) -> GenerateJob:
    """The job of a session's next turn.

    Args:
        retrieved: the search and its passages.
        turns: those of the session, oldest first.
        window: tokens that the model can hold, prompt and answer together.
        template: our own texts.
        grounded: whether retrieval is on.
        drafter: for requests that name none.
        repetitions: when answers that repeat themselves end.
        support: how its support is found; None for an answer without it.
        outdated: indexes of the turns that the prompt leaves out, since documents that they rest on have changed.
        unsupported: indexes of those that it leaves out, since their answers have a warning: a model repeats them.
        revised: the last answer, if the request only says how to write it; the passages are that answer's.
        doubtful: that answer has a warning.

    Raises:
        ContextOverflow: the prompt does not fit even without passages.
    """
    if retrieved.stated:
        template = replace(template, no_passages="{question}")
    build = partial(
        prompt.build,
        retrieved.in_full(request.question),
        turns=turns,
        tokens=tokens,
        window=window,
        template=template,
        grounded=grounded,
        whole=retrieved.whole,
        left_out={*outdated, *unsupported},
        edited=revised,
    )
    built = build(retrieved.read, max_tokens=max_tokens)
    parts: list[list[Segment]] = []
    if retrieved.stated:
        built = built.citing(retrieved.passages)
    elif retrieved.whole and not all(passage["in_prompt"] for passage in built.passages):
        room = window - by_parts.NOTES
        parts, read = by_parts.split(request.question, retrieved.passages, tokens, room=room, template=template)
        if parts:
            notes = by_parts.places(parts)
            built = build([], max_tokens=max_tokens + len(notes) * by_parts.NOTES, notes=notes)
            built = built.citing(retrieved.passages, read)
    again = question_again(template, retrieved, request.question, built.passages)
    return make_job(
        answer_id,
        principal,
        built,
        session_id=session_id,
        collection=collection,
        question=request.question,
        turn=len(turns),
        outdated=sum(n >= built.dropped_turns for n in outdated),
        unsupported=sum(n >= built.dropped_turns for n in unsupported),
        sampling=sampling(request, max_tokens, repetitions.limit(bool(built.passages)), again),
        speculation=speculation(request, drafter),
        prediction=request.predicted,
        checking=support.of(request.question, retrieved, built, tokens, [turn.question for turn in turns])
        if support and not (retrieved.stated or revised)
        else None,
        doubtful=doubtful,
        stated=retrieved.stated,
        parts=parts,
        notes_tokens=by_parts.NOTES,
        retrieval_query=retrieved.query,
        rewrite_ms=retrieved.rewrite_ms,
        search_ms=retrieved.search_ms,
        not_rewritten=retrieved.not_rewritten,
        filtered=retrieved.filtered,
    )
