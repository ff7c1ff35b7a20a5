"""An edit as a job: the answer under edit, and the conversation that its prompt continues. Pure.

An edit is a turn of its base's session. Its prompt is the conversation up to the answer under edit, so that the model
sees no newer version of it; what came later stays in the session, and later questions see all of it in order. A base
that is not part of its session (the session was begun anew, or the answer came too late for its turn) is edited
in the conversation that its own record holds; such an edit stays apart from the session as well.

Knows records and turns; knows no Redis and no HTTP.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rag_service.access.principal import Principal
from rag_service.contract.answer import Answer
from rag_service.contract.schemas import EditRequest
from rag_service.errors import Conflict
from rag_service.prompting import prompt
from rag_service.prompting.checking import Support
from rag_service.prompting.generation_options import Repetitions, sampling, speculation
from rag_service.prompting.jobs import NO_TURN, make_job
from rag_service.prompting.template import PromptTemplate
from workers.broker.messages import DoneEvent, Edit, GenerateJob, Segment, TurnRecord
from workers.sessions.streams import AnswerRecord
from workers.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class EditBase:
    """The conversation that an edit continues.

    Attributes:
        turns: finished turns, oldest first; the answer under edit is that of the last one.
        answer: the answer under edit, with its ids.
        turn: for GenerateJob.turn.
    """

    turns: Sequence[TurnRecord]
    answer: Segment
    turn: int


def finished(record: AnswerRecord) -> DoneEvent:
    """The result of an answer that can be edited.

    Raises:
        Conflict: it runs (Retry-After), failed, was cancelled, or says nothing.
    """
    answer_id = record["answer_id"]
    if record["status"] in ("queued", "running"):
        raise Conflict(
            f"The answer {answer_id} is not finished: follow /v1/answers/{answer_id}/events to its end, then edit it.",
            "answer_running",
            retry_after=2,
        )
    if not record["session_id"]:
        raise Conflict(
            f"The answer {answer_id} belongs to no session, so it cannot be edited: ask at /v1/query for one that can.",
            "not_editable",
        )
    done = record["result"]
    if done is None or done.finish_reason in ("error", "cancelled"):
        how = "was cancelled" if record["status"] == "cancelled" else "failed"
        raise Conflict(
            f"The answer {answer_id} {how}, so there is nothing to edit: ask again, or edit another version.",
            "not_editable",
        )
    if not done.text.strip():
        raise Conflict(
            f"The answer {answer_id} is empty, so there is nothing to edit: ask again, or edit another version.",
            "not_editable",
        )
    return done


def root(record: AnswerRecord) -> str:
    """Id of an answer's first version."""
    edit = record["job"].edit
    return edit.root if edit else record["answer_id"]


def edit_base(record: AnswerRecord, turns: Sequence[TurnRecord], end_ids: Collection[int]) -> EditBase:
    """Where a finished answer is edited.

    Args:
        turns: of its session.
        end_ids: tokens that end an answer and are no part of its text.
    """
    for number, turn in enumerate(turns, 1):
        if turn.answer_id == record["answer_id"]:
            return EditBase(turns[:number], turn.segments[-1], len(turns))
    done = finished(record)
    ids = done.ids[:-1] if done.ids[-1] in end_ids else done.ids
    answer = Segment(kind="answer", key=record["answer_id"], text=done.text, ids=ids)
    return EditBase(_recorded(record, answer), answer, NO_TURN)


def passages(record: AnswerRecord) -> list[dict[str, Any]]:
    """Those that the answer's prompt holds."""
    return [passage for passage in record["passages"] if passage.get("in_prompt", True)]


def job(
    request: EditRequest,
    record: AnswerRecord,
    base: Answer,
    turns: Sequence[TurnRecord],
    tokens: Tokens,
    *,
    principal: Principal,
    answer_id: str,
    versions: int,
    window: int,
    usual_tokens: int,
    template: PromptTemplate,
    drafter: str,
    repetitions: Repetitions,
    support: Support | None,
    doubtful: bool = False,
) -> GenerateJob:
    """The job of a new version.

    Args:
        record, base: of the answer under edit.
        turns: of its session, oldest first.
        versions: how many there are.
        window: tokens that the model can hold, prompt and answer together.
        usual_tokens: most tokens of an answer that names no limit.
        template: our own texts.
        drafter: of requests that name none.
        repetitions: when answers that repeat themselves end.
        support: how its support is found; None for an answer without it.
        doubtful: the answer under edit has a warning.

    Raises:
        ContextOverflow: even without passages it does not fit.
    """
    edited = edit_base(record, turns, tokens.eos_ids)
    # Room for the whole answer and for what is added to it.
    roomy = max(usual_tokens, min(len(edited.answer.ids or ()) + usual_tokens // 2, 32768))
    max_tokens = request.max_tokens or roomy
    built = prompt.build(
        request.instruction,
        passages(record),
        edited.turns,
        tokens,
        window=window,
        max_tokens=max_tokens,
        template=template,
        edited=edited.answer,
    )
    assert built.edited is not None
    edit = Edit(
        base=base.answer_id,
        root=root(record),
        version=max(versions, base.version) + 1,
        instruction=request.instruction,
        segment=built.edited,
        text=base.answer or "",
        citations=[citation.model_dump() for citation in base.citations or ()],
    )
    return make_job(
        answer_id,
        principal,
        built,
        session_id=base.session_id,
        collection=base.collection,
        question=base.question,
        turn=edited.turn,
        sampling=sampling(request, max_tokens, repetitions.limit(False)),
        speculation=speculation(request, drafter),
        edit=edit,
        doubtful=doubtful,
        checking=support.of_edit(base.question, built) if support else None,
    )


def _recorded(record: AnswerRecord, answer: Segment) -> list[TurnRecord]:
    """The turns of an answer's own prompt, and the answer."""
    turns: list[TurnRecord] = []
    segments: list[Segment] = []
    for segment in [*record["job"].segments, answer]:
        segments.append(segment)
        if segment.kind == "answer":
            turn = TurnRecord(
                answer_id=segment.key,
                question=record["question"],
                segments=segments,
                passages=passages(record),
                created=record["created"],
            )
            turns.append(turn)
            segments = []
    return turns
