"""From a prompt to the job that a worker takes: the fields that questions, edits, conversations and rewrites share."""

from __future__ import annotations

import time
from typing import Any

from rag_service.access.principal import Principal
from rag_service.prompting.prompt import Prompt
from workers.broker.messages import GenerateJob

NO_TURN = -1
"""`turn` of an answer that never becomes a turn of a session."""


def make_job(answer_id: str, principal: Principal, prompt: Prompt, **fields: Any) -> GenerateJob:
    """The job of one answer.

    Args:
        principal: who asks; the answer belongs to its tenant and person.
        prompt: with the passages that it holds and the turns that it lacks.
        fields: the other fields of `GenerateJob`.
    """
    return GenerateJob(
        answer_id=answer_id,
        tenant=principal.tenant,
        person=principal.person,
        segments=prompt.segments,
        new_from=prompt.new_from,
        passages=prompt.passages,
        forgotten=prompt.turns_without_passages,
        passages_left=prompt.passages_dropped,
        gone=prompt.dropped_turns,
        turns_left=prompt.newly_dropped_turns,
        created=time.time(),
        **fields,
    )
