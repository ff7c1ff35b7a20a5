"""An answer's events as server-sent events.

An event's id is its entry id in the Redis stream, so `Last-Event-ID` resumes. If a reader disconnects, the answer
continues to run; only DELETE cancels it. Knows the wire format and the data of each event; knows no Redis.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from rag_service.answering.answers import OWN_WORDS, failure
from rag_service.answering.pipeline import Pipeline
from rag_service.api.problems import as_problem
from rag_service.citing.provenance import Provenance
from rag_service.errors import Problem
from workers.broker.messages import (
    DoneEvent,
    ErrorEvent,
    GenerateJob,
    PartsEvent,
    PassagesEvent,
    RestartEvent,
    TokenEvent,
    WaitingEvent,
)

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
SUPPORT = ("support", "sentences", "answerable", "calibrated", "abstained", "note")
"""Fields of the `support` event, which comes before `done` and has no id of its own."""
HEARTBEAT = ": still here\n\n"


def streaming(pipeline: Pipeline, job: GenerateJob, after: str = "0-0") -> StreamingResponse:
    """A response with the events of an answer after the entry id `after`."""
    return StreamingResponse(events(pipeline, job, after), media_type="text/event-stream", headers=HEADERS)


async def events(pipeline: Pipeline, job: GenerateJob, after: str) -> AsyncIterator[str]:
    """The events as text. An `error` without an id is an interruption, not the answer's end: clients resume later."""
    by_text = pipeline.settings.engine == "openai"  # the tokenizer is the service's own, not that of earlier answers
    provenance = Provenance(job, pipeline.tokens, by_text)
    last_seen = _position(after)
    try:
        # From the start, because the offsets of a token depend on all tokens before it.
        async for entry in pipeline.answers.events(job.answer_id, tell_place=True):
            if entry is None:
                yield HEARTBEAT
                continue
            entry_id, event = entry
            if isinstance(event, WaitingEvent) and not entry_id:
                yield event_text("waiting", {"answers": event.answers})
                continue
            if isinstance(event, RestartEvent):
                provenance = Provenance(job, pipeline.tokens, by_text)
            spans = provenance.add(event) if isinstance(event, TokenEvent) else []
            if _position(entry_id) <= last_seen:
                continue
            if isinstance(event, TokenEvent):
                if event.text:  # a step without final text has no event
                    yield event_text("token", _token(event, job, spans, provenance), entry_id)
            else:
                name, data = await _name_and_data(pipeline, job, event)
                if name == "done" and data["answerable"] is not None:
                    yield event_text("support", {field: data[field] for field in SUPPORT})
                yield event_text(name, data, entry_id)
    except Exception as error:
        problem: Problem = as_problem(error)
        yield event_text("error", problem.document())


def event_text(name: str, data: dict[str, Any], entry_id: str | None = None) -> str:
    """One event. Its JSON contains no line ends, so the data is one line."""
    head = f"id: {entry_id}\n" if entry_id else ""
    return f"{head}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _token(event: TokenEvent, job: GenerateJob, spans: list[dict[str, Any]], so_far: Provenance) -> dict[str, Any]:
    data: dict[str, Any] = {"text": event.text, "tokens": so_far.tokens}
    if job.upstream is None:  # a model server tells no passes
        data["steps"] = max(so_far.steps, 0)
    if source := source_of(event, job):
        data["source"] = source
    if spans:
        data["spans"] = spans
    return data


async def _name_and_data(
    pipeline: Pipeline,
    job: GenerateJob,
    event: PassagesEvent | WaitingEvent | PartsEvent | RestartEvent | DoneEvent | ErrorEvent,
) -> tuple[str, dict[str, Any]]:
    """The name and the data of an event."""
    match event:
        case PassagesEvent():
            ids = {"answer_id": job.answer_id, "session_id": job.session_id}
            dropped = {"passages_left": job.passages_left, "turns_left": job.turns_left}
            left_out = {"turns_outdated": job.outdated, "turns_unsupported": job.unsupported}
            searched = {"retrieval_query": job.retrieval_query, "search_note": OWN_WORDS.get(job.not_rewritten)}
            passages = [{**passage, "changed": False} for passage in event.passages or ()]  # just retrieved
            return "passages", {**ids, **searched, **dropped, **left_out, "passages": passages}
        case WaitingEvent():
            return "waiting", {"answers": event.answers}
        case PartsEvent():
            return "parts", {"done": event.done, "total": event.total}
        case RestartEvent():
            return "restart", {"reason": event.reason}
        case DoneEvent():
            return "done", (await pipeline.answers.result(job.answer_id)).model_dump()
        case ErrorEvent():
            return "error", failure(event)


def _position(entry_id: str) -> tuple[int, int]:
    """An entry id as a pair that sorts in stream order; an id without a sequence number sorts first."""
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)


def source_of(event: TokenEvent, job: GenerateJob) -> dict[str, Any] | None:
    """The source of a step's first copied token and the number of its copied tokens; None if it copied no token."""
    copied = [source for source in event.sources if source is not None and source.offset is not None]
    if not copied:
        return None
    first = copied[0]
    source: dict[str, Any] = {"drafter": first.drafter, "kind": "answer", "copied": len(copied), "of": len(event.ids)}
    if first.segment is not None and first.segment < len(job.segments):
        segment = job.segments[first.segment]
        edited = job.edit is not None and job.edit.segment == first.segment
        source["kind"] = "edited" if edited else segment.kind
        if segment.document_id is not None:
            source |= segment.model_dump(include={"collection", "document_id", "chunk_id"})
    elif first.segment is not None and first.segment - len(job.segments) < len(job.unread):
        passage = job.unread[first.segment - len(job.segments)]
        names = ("collection", "document_id", "chunk_id")
        source |= {"kind": "passage", **{name: passage.get(name) for name in names}}
    elif first.segment == job.predicted_segment and job.prediction is not None:
        source["kind"] = "prediction"
    return source
