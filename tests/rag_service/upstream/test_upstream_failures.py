"""Answers that fail at a model server: their problem documents, and the same in OpenAI's form."""

from __future__ import annotations

from typing import Any

import pytest

from rag_service.answering.answers import failure
from rag_service.api.openai_errors import error_document, status_of
from rag_service.contract.answer import Answer
from rag_service.replying.attended import failed
from workers.broker.messages import ErrorEvent


@pytest.mark.parametrize(
    ("event", "status", "retry_after"),
    [
        (ErrorEvent(code="upstream_unavailable", detail="It is away."), 503, 10),
        (ErrorEvent(code="upstream_unavailable", detail="It is busy.", retry_after=2.2), 503, 3),
        (ErrorEvent(code="upstream_unavailable", detail="It is busy.", retry_after=0.0), 503, 1),
        (ErrorEvent(code="upstream_cut", detail="It broke off."), 502, None),
        (ErrorEvent(code="upstream_rejected", detail="It takes no such model."), 502, None),
        (ErrorEvent(code="prompt_too_long", detail="Ask for less."), 422, None),
        (ErrorEvent(code="out_of_memory", detail="Ask for less."), 503, 10),
        (ErrorEvent(code="internal_error", detail="See the log."), 500, None),
        (ErrorEvent(code="invalid_prompt", detail="Write less."), 422, None),
    ],
)
def test_a_failed_answer_says_what_failed_and_when_to_ask_again(
    event: ErrorEvent, status: int, retry_after: int | None
) -> None:
    document = failure(event)
    assert (document["status"], document["code"], document["detail"]) == (status, event.code, event.detail)
    assert document.get("retry_after") == retry_after
    problem = failed(answer(error=document))
    assert status_of(problem) == (400 if status == 422 else status)
    assert problem.headers() == ({} if retry_after is None else {"Retry-After": str(retry_after)})
    assert error_document(problem)["error"]["message"] == event.detail


def test_openais_clients_know_the_code_of_a_prompt_that_is_too_long() -> None:
    error = error_document(failed(answer(error=failure(ErrorEvent(code="prompt_too_long", detail="Ask for less.")))))
    assert (error["error"]["code"], error["error"]["type"]) == ("context_length_exceeded", "invalid_request_error")
    error = error_document(failed(answer(error=failure(ErrorEvent(code="upstream_cut", detail="It broke off.")))))
    assert (error["error"]["code"], error["error"]["type"]) == ("upstream_cut", "server_error")


def answer(**fields: Any) -> Answer:
    return Answer.model_construct(**fields)
