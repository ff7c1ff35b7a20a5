"""An answer as clients see it, from its record, its last event and its citations. Pure.

Knows records, tokens' bytes and citations; knows no Redis and no HTTP.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from difflib import SequenceMatcher
from itertools import repeat
from typing import Any

from rag_service.answering.names import NO_COLLECTION
from rag_service.citing.citations import Citation, CitedPassage, Stated, carry, cite, stated
from rag_service.citing.text_spans import TextTokens, answer_text, passage_text
from rag_service.contract.answer import Answer, CitationOut, NearestOut, PassageOut, PromptPart, SentenceOut, Version
from rag_service.contract.notes import DOUBTFUL, passes_on
from rag_service.errors import problem_document
from rag_service.setting_sections import Answers
from workers.broker.messages import DoneEvent, ErrorEvent, GenerateJob, NotRewritten, Place, Support
from workers.sessions.streams import AnswerRecord

NO_PASSAGES = "No passage was found for this question, so the answer is not based on your documents."
FILTERED = (
    "No passage was found among the documents that pass the filter {filter}, so the answer is not based on your "
    "documents."
)
UNSUPPORTED = "The passages probably do not state this answer. Check it against the documents."
UNANSWERED = "The passages probably do not answer this question. Check the answer against the documents."
REFUSED = "The passages probably do not answer this question, so no answer is given."
NOT_FOUND = "The model found no answer in the passages. Look at them yourself if you expect one there."
TO_CHECK = (UNSUPPORTED, UNANSWERED, REFUSED, NOT_FOUND)
"""Notes on answers that are told with the nearest sentence of the passages."""
FAILURES = {
    "internal_error": 500,
    "upstream_cut": 502,
    "upstream_rejected": 502,
    "out_of_memory": 503,
    "upstream_unavailable": 503,
    "prompt_too_long": 422,
}
"""Status of a failed answer by its code; 422 for all others."""
RETRY_S = 10.0
"""Seconds after which there may be room, or a model server may answer again, where it does not say."""
OWN_WORDS: dict[NotRewritten | None, str] = {
    "late": "Passages were searched for with your own words, because rewriting this follow-up to stand alone took too "
    "long. Ask in full if they do not fit.",
    "failed": "Passages were searched for with your own words, because rewriting this follow-up to stand alone failed. "
    "Ask in full if they do not fit.",
}
UNCHANGED = "Nothing was changed: this is the same text as before."
REPEATED = (
    "The model only repeated what you asked for instead of changing the answer. Say it in other words, or edit the "
    "version before."
)
AGAIN = 0.85
"""Likeness of an edit's text and its instruction, as `difflib` measures it, from which on one repeats the other."""
LONG = 50
"""Words above which a text is compared word by word: likeness takes the product of both lengths."""
RETRIEVAL_OFF = "This answer was generated without retrieval, so it is not based on your documents."


def present(
    record: AnswerRecord,
    tokens: TextTokens,
    settings: Answers,
    token_ids: bool = False,
    prompt: bool = False,
    changed: Sequence[bool] | None = None,
) -> Answer:
    """The answer in its present state; once it has ended, with citations. On request, with token ids and prompt.

    `changed`: for each passage of the record whether its document has changed since; None if that was not looked up.
    """
    done, error = record["result"], record["error"]
    searched = record["collection"] or ""  # of passages stored before they named theirs
    passages = [
        PassageOut(**{"collection": searched, **passage, "changed": gone})
        for passage, gone in zip(record["passages"], changed or repeat(False), strict=False)
    ]
    fields: dict[str, Any] = {}
    if done is not None:
        fields |= _finished(done, record, tokens, settings)
        fields["token_ids"] = done.ids if token_ids else None
    elif error is not None:
        fields |= {"finish_reason": "error", "error": failure(error)}
    if prompt:
        fields["prompt"] = [PromptPart(kind=one.kind, text=one.text) for one in record["job"].segments]
    job, edit = record["job"], record["job"].edit
    return Answer(
        answer_id=record["answer_id"],
        session_id=record["session_id"],
        version=edit.version if edit else 1,
        base=edit.base if edit else None,
        instruction=edit.instruction if edit else None,
        turn=1 + sum(segment.kind == "answer" for segment in job.segments) + job.gone + job.later,
        status=record["status"],
        question=record["question"],
        collection=record["collection"],
        passages=passages,
        passages_dropped=sum(not passage.in_prompt for passage in passages),
        passages_left=record["job"].passages_left,
        turns_left=record["job"].turns_left,
        turns_outdated=record["job"].outdated,
        turns_unsupported=record["job"].unsupported,
        retrieval_query=record["job"].retrieval_query,
        search_note=OWN_WORDS.get(record["job"].not_rewritten),
        seed=record["seed"],
        **fields,
    )


def version(record: AnswerRecord) -> Version:
    """An answer as one of several versions."""
    done, edit = record["result"], record["job"].edit
    return Version(
        answer_id=record["answer_id"],
        version=edit.version if edit else 1,
        base=edit.base if edit else None,
        instruction=edit.instruction if edit else None,
        status=record["status"],
        finish_reason=done.finish_reason if done else "error" if record["error"] else None,
        answer=done.text if done else None,
        created=record["created"],
    )


def is_doubtful(answer: Answer) -> bool:
    """Whether an answer has a warning that its passages do not state it, or is made from one that has."""
    return answer.note in (UNSUPPORTED, UNANSWERED) or passes_on(answer.note)


def failure(error: ErrorEvent) -> dict[str, Any]:
    """A failed answer's problem document; with `retry_after`, in seconds, where asking again may succeed."""
    status = FAILURES.get(error.code, 422)
    usual = RETRY_S if status == 503 else None
    wait = usual if error.retry_after is None else error.retry_after
    advice = {} if wait is None else {"retry_after": max(1, math.ceil(wait))}
    return problem_document(status, error.code, error.detail, **advice)


def citations(done: DoneEvent, job: GenerateJob, tokens: TextTokens, settings: Answers) -> list[CitationOut]:
    """The citations of a finished answer; for an edit, with those of its base that still hold.

    Each has the support of its sentence; sentences with too little of it get no `retrieved` citation.
    """
    support = done.support
    if support is not None and support.abstained == "refused":
        return []
    shown = [p for p in job.passages if p.get("in_prompt", True)]
    cited = [
        CitedPassage(
            p.get("collection", job.collection or ""),
            p["document_id"],
            p["chunk_id"],
            p["source_start"],
            passage_text(p["text"], tokens),
        )
        for p in shown
    ]
    if support is None:
        statements = stated(job.question, done.text, [p["text"] for p in shown])
    else:
        statements = [
            Stated(one.start, one.end, one.passage, one.source_start, one.source_end)
            for one in support.sentences
            if one.passage >= 0 and one.support >= settings.support_threshold
        ]
    spans = cite(
        answer_text(_ids(done, tokens), done.text, tokens), cited, min_run=settings.min_run, statements=statements
    )
    if job.edit is not None:
        before = [Citation(**{"collection": "", **citation, "support": None}) for citation in job.edit.citations]
        spans = carry(job.edit.text, before, done.text, spans)
    if support is not None:
        spans = [replace(one, support=_support(one, support)) for one in spans]
    return [CitationOut(**asdict(one)) for one in spans]


def _ids(done: DoneEvent, tokens: TextTokens) -> Sequence[int]:
    """The answer's tokens; those of its text, where its ids are of another tokenizer: of the engine before this one."""
    written = b"".join(map(tokens.token_bytes, done.ids))
    if tokens.strips_space:
        written = written.removeprefix(b" ")
    if written.decode("utf-8", "replace").startswith(done.text):
        return done.ids
    return tokens.encode_content(done.text).ids


def _support(citation: Citation, support: Support) -> float:
    """That of the sentence that has most of the citation's span; of the answer, if none has any."""
    sizes = [
        (min(one.end, citation.answer_end) - max(one.start, citation.answer_start), one.support)
        for one in support.sentences
    ]
    size, best = max(sizes, key=lambda pair: pair[0], default=(0, support.support))
    return best if size > 0 else support.support


def _finished(done: DoneEvent, record: AnswerRecord, tokens: TextTokens, settings: Answers) -> dict[str, Any]:
    cited = citations(done, record["job"], tokens, settings)
    support = done.support
    supported = bool(cited) if support is None else support.support >= settings.support_threshold
    note = _of_edit(done, record["job"])
    if note is None:
        note = _note(record, support, supported, done.text)
    elif record["job"].doubtful:
        note = f"{note} {DOUBTFUL}"  # what is made from this text has the warning, too
    fields: dict[str, Any] = {}
    if support is not None:
        refused = support.abstained == "refused"
        fields = support.model_dump(include={"answerable", "calibrated", "abstained", "signals"})
        fields |= {
            "support": None if refused else support.support,
            "sentences": [
                SentenceOut(start=one.start, end=one.end, support=one.support)
                for one in ([] if refused else support.sentences)
            ],
        }
    return {
        **fields,
        "answer": done.text,
        "citations": cited,
        "grounded": supported and not (support and support.abstained == "refused"),
        "note": note,
        "nearest": _nearest(support.nearest, record["job"]) if support and note in TO_CHECK else None,
        "finish_reason": done.finish_reason,
        "usage": done.usage,
        "timings": _timings(done, record["job"]),
        "speculation": done.speculation,
        "support_missing": done.support_missing,
    }


def _nearest(place: Place | None, job: GenerateJob) -> NearestOut | None:
    if place is None:
        return None
    passage = [p for p in job.passages if p.get("in_prompt", True)][place.passage]
    return NearestOut(
        text=passage["text"][place.start : place.end],
        title=passage["title"],
        collection=passage.get("collection", job.collection or ""),
        document_id=passage["document_id"],
        chunk_id=passage["chunk_id"],
        source_start=passage["source_start"] + place.start,
        source_end=passage["source_start"] + place.end,
        columns=place.columns,
    )


def _timings(done: DoneEvent, job: GenerateJob) -> dict[str, float]:
    before = {"rewrite": job.rewrite_ms, "search": job.search_ms}
    return {**{name: ms for name, ms in before.items() if ms is not None}, **done.timings}


def _of_edit(done: DoneEvent, job: GenerateJob) -> str | None:
    """Of an edit, and of a message that only said how the last answer is to be written."""
    edited = next((one for one in job.segments[job.new_from :] if one.kind == "edited"), None)
    if edited is None or done.finish_reason == "cancelled":
        return None
    if edited.text.strip() == done.text.strip():
        return UNCHANGED
    wanted = job.edit.instruction if job.edit else job.question
    return REPEATED if _is_again(_words(done.text), _words(wanted)) else None


def _is_again(said: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether these are the same words, or nearly and from the first one on: small models misspell what they repeat."""
    if not said or said[:1] != wanted[:1]:
        return False
    if said == wanted or len(said) > LONG:
        return said == wanted
    matcher = SequenceMatcher(None, " ".join(said), " ".join(wanted), autojunk=False)
    return matcher.quick_ratio() >= AGAIN and matcher.ratio() >= AGAIN


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _note(record: AnswerRecord, support: Support | None, supported: bool, text: str) -> str | None:
    checking = record["job"].checking
    refusal = checking.refusal.strip() if checking is not None and checking.abstain != "off" else ""
    if support is not None and support.abstained == "refused":
        return REFUSED
    if refusal and text.strip() == refusal:
        return NOT_FOUND  # the model says so itself
    if support is not None and support.abstained is not None:
        return UNANSWERED
    job = record["job"]
    told = any(segment.kind == "instruction" for segment in job.segments[job.new_from :])
    new = any(not passage.get("earlier") for passage in record["passages"])
    if job.doubtful:
        return DOUBTFUL
    if supported or (told and record["collection"] and job.edit is None and job.retrieval_query is None and not new):
        return None  # a greeting is answered without a search
    if any(passage.get("in_prompt", True) for passage in record["passages"]):
        if any(segment.kind == "edited" for segment in job.segments[job.new_from :]):
            return None
        return None if job.checking is not None and job.checking.abstain == "off" else UNSUPPORTED
    if job.edit is not None or not told:
        return RETRIEVAL_OFF
    if not record["collection"]:
        return NO_COLLECTION
    return FILTERED.replace("{filter}", job.filtered) if job.filtered else NO_PASSAGES
