"""Feedback on an answer, with what is kept of the answer beside it. Pure."""

from __future__ import annotations

import time

from rag_service.contract.answer import Answer
from rag_service.contract.feedback import FeedbackOut, FeedbackRequest
from rag_service.errors import Conflict
from workers.sessions.feedback import Feedback, FeedbackPassage


def feedback_on(answer: Answer, request: FeedbackRequest) -> Feedback:
    """What is kept of a rating.

    Raises:
        Conflict: the answer is not finished.
    """
    if answer.status in ("queued", "running"):
        raise Conflict(
            f"The answer {answer.answer_id} is not finished: follow /v1/answers/{answer.answer_id}/events to its end, "
            "then rate it.",
            "answer_running",
            retry_after=2,
        )
    return Feedback(
        answer_id=answer.answer_id,
        session_id=answer.session_id,
        rating=request.rating,
        comment=request.comment,
        created=time.time(),
        question=answer.question,
        instruction=answer.instruction,
        answer=answer.answer or "",
        collection=answer.collection,
        passages=[
            FeedbackPassage(
                collection=passage.collection,
                document_id=passage.document_id,
                chunk_id=passage.chunk_id,
                title=passage.title,
            )
            for passage in answer.passages
            if passage.in_prompt
        ],
        seed=answer.seed,
        finish_reason=answer.finish_reason,
        support=answer.support,
    )


def shown(feedback: Feedback) -> FeedbackOut:
    """The feedback as the API shows it."""
    return FeedbackOut(**{name: feedback[name] for name in FeedbackOut.model_fields})  # type: ignore[literal-required]
