"""Spans of streamed answers: what was drafted from where, in code points, however the stream is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx
import pytest

from rag_service.citing.provenance import Provenance
from rag_service.contract.schemas import QueryRequest
from workers.broker.messages import GenerateJob, Sampling, Segment, TokenEvent, TokenOrigin
from workers.tokens.tokenizer import Tokens

PASSAGE = {
    "collection": "guides",
    "document_id": "d",
    "chunk_id": "c",
    "title": "Guide",
    "heading": "Köln",
    "text": "\n Over the bridge of Köln walk 東京 visitors 😀 each year.",
    "source_start": 100,
    "source_end": 155,
    "in_prompt": True,
}
UNREAD = {**PASSAGE, "chunk_id": "u", "text": "The quick brown fox.", "source_start": 7, "in_prompt": False}
DOCUMENT = " " * 100 + str(PASSAGE["text"])
EARLIER = "It jumps over the dog 😀."


@pytest.fixture
def job(tokens: Tokens) -> GenerateJob:
    text = f"[Guide > Köln]\n{str(PASSAGE['text']).strip()}\n\n"
    segments = [
        Segment(kind="template", key="t", text="<|im_start|>"),
        Segment(kind="passage", key="p", text=text, collection="guides", document_id="d", chunk_id="c"),
        Segment(kind="answer", key="first", text=EARLIER, ids=tokens.encode_content(EARLIER).ids),
    ]
    return GenerateJob(
        answer_id="a",
        session_id="s",
        question="?",
        segments=segments,
        passages=[PASSAGE, UNREAD],
        prediction="It jumps.",
        sampling=Sampling(seed=1),
        created=0.0,
    )


def copied(tokens: Tokens, job: GenerateJob, segment: int, words: str) -> tuple[list[int], list[TokenOrigin]]:
    """Ids of `words` as they stand in a segment, and their origins."""
    known = job.segments[segment]
    ids = known.ids if known.ids is not None else tokens.encode_content(known.text).ids
    own = tokens.encode_content(words).ids
    at = next(n for n in range(len(ids)) if ids[n : n + len(own)] == own)
    return own, [TokenOrigin(drafter="pld", segment=segment, offset=at + n) for n in range(len(own))]


def steps(tokens: Tokens, ids: Sequence[int], sources: Sequence[TokenOrigin | None], size: int) -> list[TokenEvent]:
    """Events of `size` ids, with text that is final as the worker's stream has it."""
    from workers.tokens.text_stream import TextStream

    stream, events = TextStream(tokens), []
    for t in range(0, len(ids), size):
        part = ids[t : t + size]
        text = "".join(stream.push(token)[0] for token in part)
        events.append(TokenEvent(t=t, ids=part, text=text, sources=list(sources[t : t + size])))
    return events


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_a_model_servers_words_have_their_source_where_they_are_equal(
    tokens: Tokens, job: GenerateJob, size: int
) -> None:
    job = job.model_copy(update={"upstream": "default"})
    answer = "😀 Yes: over the bridge of Köln walk 東京 visitors 😀. It jumps over the dog 😀."
    ids = tokens.encode_content(answer).ids
    provenance = Provenance(job, tokens)
    spans = [span for event in steps(tokens, ids, [None] * len(ids), size) for span in provenance.add(event)]
    assert {span["kind"] for span in spans} == {"passage", "answer"}
    for span in spans:
        source = DOCUMENT if span["kind"] == "passage" else EARLIER
        text = answer[span["answer_start"] : span["answer_end"]]
        assert text == source[span["source_start"] : span["source_end"]]
        assert "drafter" not in span
    words = "".join(answer[span["answer_start"] : span["answer_end"]] for span in spans if span["kind"] == "passage")
    assert words == "Köln walk 東京 visitors 😀"
    assert {span.get("document_id") for span in spans} == {"d", None}
    assert {span.get("answer_id") for span in spans} == {"first", None}


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_spans_select_equal_text_in_answer_and_document(tokens: Tokens, job: GenerateJob, size: int) -> None:
    opening = tokens.encode_content("😀 Yes:").ids
    own, origins = copied(tokens, job, 1, " bridge of Köln walk 東京 visitors 😀")
    events = steps(tokens, [*opening, *own], [*[None] * len(opening), *origins], size)
    provenance = Provenance(job, tokens)
    spans = [span for event in events for span in provenance.add(event)]
    answer = "".join(event.text for event in events)
    for span in spans:
        assert (span["kind"], span["document_id"], span["chunk_id"]) == ("passage", "d", "c")
        if span["answer_end"] - span["answer_start"] == span["source_end"] - span["source_start"]:
            here = answer[span["answer_start"] : span["answer_end"]]
            assert here == DOCUMENT[span["source_start"] : span["source_end"]]
    assert spans[0]["answer_start"] == len("😀 Yes:")
    assert spans[-1]["answer_end"] == len(answer)
    assert all(a["answer_end"] == b["answer_start"] for a, b in pairwise(spans))
    assert provenance.tokens == len(opening) + len(own)
    assert provenance.steps == len(events) - 1
    if size == 50:
        assert len(spans) == 1


def test_every_kind_of_source_is_named(tokens: Tokens, job: GenerateJob) -> None:
    def named(**origin: Any) -> dict[str, Any]:
        (span,) = Provenance(job, tokens).add(
            TokenEvent(t=0, ids=tokens.encode_content("x").ids, text="x", sources=[TokenOrigin(drafter="d", **origin)])
        )
        return {name: value for name, value in span.items() if name not in ("answer_start", "answer_end", "drafter")}

    ends = [end for _, end in tokens.encode_content(UNREAD["text"]).offsets]
    assert named(segment=0, offset=0) == {"kind": "template"}
    assert named(segment=2, offset=0) == {"kind": "answer", "answer_id": "first", "source_start": 0, "source_end": 2}
    unread = {"kind": "passage", "collection": "guides", "document_id": "d", "chunk_id": "u"}
    unread |= {"source_start": 7, "source_end": 7 + ends[0]}
    assert named(segment=3, offset=0) == unread
    assert named(segment=4, offset=0) == {"kind": "prediction"}
    assert named(segment=5, offset=0) == {"kind": "store"}
    assert named(offset=3) == {"kind": "itself"}
    assert named() == {"kind": "neural"}


def test_the_title_line_of_a_passage_has_no_offsets_in_the_document(tokens: Tokens, job: GenerateJob) -> None:
    origin = TokenOrigin(drafter="pld", segment=1, offset=0)
    (span,) = Provenance(job, tokens).add(TokenEvent(t=0, ids=[40], text="[", sources=[origin]))
    assert span["chunk_id"] == "c"
    assert "source_start" not in span


@pytest.mark.decoder_only("its runtime is held in the middle of a step")
async def test_a_resumed_stream_names_the_same_spans(client: httpx.AsyncClient, parse: Any) -> None:
    body = {"question": "What does the fox jump over?", "collection": "animals", "stream": True}
    events = parse((await client.post("/v1/query", json=body)).text)
    tokens = [data for _, name, data in events if name == "token"]
    done = events[-1][2]
    assert tokens[-1]["tokens"] in (done["usage"]["completion_tokens"] - 1, done["usage"]["completion_tokens"])
    assert tokens[-1]["steps"] <= done["speculation"]["steps"]
    assert any(data.get("spans") for data in tokens)
    url = f"/v1/answers/{done['answer_id']}/events"
    for seen in range(len(events) - 1):
        rest = await client.get(url, headers={"Last-Event-ID": events[seen][0]})
        assert parse(rest.text) == events[seen + 1 :]


async def test_an_answer_apart_is_no_turn_and_continues_the_session(client: httpx.AsyncClient) -> None:
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    asked = {"question": "What does the fox jump over?", "collection": "animals", "seed": 3}
    first = (await client.post("/v1/query", json=asked)).json()
    session = first["session_id"]
    follow_up = {**asked, "question": "And when?", "session_id": session}
    beside = (await client.post("/v1/query", json={**follow_up, "apart": True, "speculation": "off"})).json()
    turns = (await client.get(f"/v1/sessions/{session}")).json()["turns"]
    assert [turn["answer_id"] for turn in turns] == [first["answer_id"]]
    after = (await client.post("/v1/query", json=follow_up)).json()
    jobs = [(await pipeline.answers.record(one["answer_id"]))["job"] for one in (beside, after)]
    assert jobs[0].segments == jobs[1].segments
    assert (beside["turn"], after["turn"]) == (2, 2)
    await client.delete(f"/v1/sessions/{session}")
    assert (await client.get(f"/v1/answers/{beside['answer_id']}")).status_code == 404
    alone = await pipeline.answer(QueryRequest(**asked, apart=True))
    assert (await pipeline.answers.finished(alone)).session_id == ""
