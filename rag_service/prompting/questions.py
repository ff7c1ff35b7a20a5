"""A question in a session as a job: its prompt behind the turns before it. Pure.

Knows prompts, options and what was found; knows no Redis and no HTTP.

Next, by the pipeline: `Queue.enqueue_generate` (`workers/sessions/queue.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_service.access.principal import Principal
from rag_service.contract.schemas import QueryRequest
from rag_service.prompting import prompt
from rag_service.prompting.found import Found
from rag_service.prompting.generation_options import sampling, speculation
from rag_service.prompting.jobs import make_job
from workers.broker.messages import GenerateJob, TurnRecord
from workers.tokens.tokenizer import Tokens


def job(
    request: QueryRequest,
    found: Found,
    turns: Sequence[TurnRecord],
    tokens: Tokens,
    *,
    principal: Principal,
    session_id: str,
    answer_id: str,
    collection: str | None,
    window: int,
    max_tokens: int,
    grounded: bool,
    drafter: str,
) -> GenerateJob:
    """The job of a session's next turn.

    Args:
        found: what was looked for, and the passages.
        turns: of the session, oldest first.
        window: tokens that the model can hold, prompt and answer together.
        grounded: whether passages were to be looked for.
        drafter: of requests that name none.

    Raises:
        ContextOverflow: even without passages it does not fit.
    """
    built = prompt.build(
        request.question, found.passages, turns, tokens, window=window, max_tokens=max_tokens, grounded=grounded
    )
    return make_job(
        answer_id,
        principal,
        built,
        session_id=session_id,
        collection=collection,
        question=request.question,
        turn=len(turns),
        sampling=sampling(request, max_tokens),
        speculation=speculation(request, drafter),
        prediction=request.predicted,
        retrieval_query=found.query,
        rewrite_ms=found.rewrite_ms,
    )
