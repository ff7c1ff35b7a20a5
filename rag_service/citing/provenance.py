"""Where the text of an answer came from while it streams: spans of it with the place each was drafted from. Pure.

Knows a job's segments, token events and tokens' bytes; knows no Redis and no HTTP. Unlike citations, which compare the
finished answer with its passages, spans say what a drafter proposed and the target model confirmed: they depend on
the drafter, and with speculation off there are none. For a model server's answers they are equal words
(`growing_copies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rag_service.citing.growing_copies import GrowingCopies
from rag_service.citing.text_spans import Spans, TextTokens, spans
from workers.broker.messages import GenerateJob, Segment, TokenEvent, TokenOrigin


@dataclass(frozen=True, slots=True)
class Place:
    """What a segment number of token origins stands for.

    Attributes:
        kind: `passage`, `answer` (an earlier one), `edited`, `prediction`, `question`, `instruction`, `system`,
            `template`, `store`, `itself` (the answer's own words) or `neural` (a draft that is no copy).
        names: what identifies it: `document_id` and `chunk_id`, or `answer_id`.
        spans: (start, end) of each of its tokens in code points of the document or the earlier answer; empty where
            offsets would tell a reader nothing.
    """

    kind: str
    names: dict[str, str]
    spans: Sequence[tuple[int, int]] = ()


class Provenance:
    """Follows one answer's token events, in order from the first.

    Args:
        tokens: those of the model, or the service's own.
        by_text: the ids are not of `tokens`: another engine wrote the answer. A model server's answer always goes by
            its text.

    Attributes:
        tokens: ids seen so far.
        steps: target passes after prefill so far.
    """

    def __init__(self, job: GenerateJob, tokens: TextTokens, by_text: bool = False) -> None:
        self._job = job
        self._tokens = tokens
        self._places: dict[tuple[int | None, bool], Place] = {}
        self._by_text = by_text or job.upstream is not None
        self._texts = list(self._copied_from()) if self._by_text else []
        self._copies = GrowingCopies([text for _, _, text in self._texts])
        self._growing = Spans(tokens.strips_space)
        self._pending: list[tuple[int, int, TokenOrigin | None]] = []
        """Tokens whose text is not yet shown completely."""
        self._shown = 0
        """Code points of the answer that events have shown."""
        self.tokens = 0
        self.steps = -1

    def add(self, event: TokenEvent) -> list[dict[str, Any]]:
        """The drafted spans of the text that the event makes final, in order, as `token` events show them."""
        self.tokens += len(event.ids)
        self.steps += bool(event.ids)
        if self._by_text:
            return [self._copied(*copy) for copy in self._copies.add(event.text)]
        sources = [*event.sources, *[None] * (len(event.ids) - len(event.sources))]
        for token, source in zip(event.ids, sources, strict=True):
            start, end = self._growing.add(self._tokens.token_bytes(token))
            self._pending.append((start, end, source))
        before, self._shown = self._shown, self._shown + len(event.text)
        spans = list(self._spans(before))
        self._pending = [piece for piece in self._pending if piece[1] > self._shown]
        return spans

    def _copied_from(self) -> Iterator[tuple[Place, int | None, str]]:
        """Texts that a model server's answer may copy, with the offset of each in its document or earlier answer."""
        for number, segment in enumerate(self._job.segments):
            if segment.kind == "passage":
                passage = self._of(segment)
                if passage is None:
                    names = segment.model_dump(include={"collection", "document_id", "chunk_id"})
                    yield Place("passage", _names(names)), None, segment.text
                else:
                    yield Place("passage", _names(passage)), passage["source_start"], passage["text"]
            elif segment.kind in ("answer", "edited"):
                edited = self._job.edit is not None and self._job.edit.segment == number
                yield Place("edited" if edited else "answer", {"answer_id": segment.key}), 0, segment.text

    def _copied(self, start: int, end: int, source: int, at: int) -> dict[str, Any]:
        place, offset, _ = self._texts[source]
        span: dict[str, Any] = {"answer_start": start, "answer_end": end, "kind": place.kind, **place.names}
        if offset is not None:
            span |= {"source_start": offset + at, "source_end": offset + at + end - start}
        return span

    def _spans(self, before: int) -> Iterator[dict[str, Any]]:
        """Spans of the text from `before` to what is shown; tokens that go on where the last one ended join it."""
        last: dict[str, Any] | None = None
        reached: tuple[int | None, int | None] = (None, None)
        for start, end, source in self._pending:
            start, end = max(start, before), min(end, self._shown)  # noqa: PLW2901
            if source is None or start >= end:
                if source is None and last is not None:
                    yield last
                    last = None
                continue
            place = self._place(source)
            goes_on = source.offset is None or reached == (source.segment, source.offset - 1)
            reached = (source.segment, source.offset)
            span = self._span(start, end, source, place)
            if last is not None and goes_on and last["kind"] == place.kind and last["drafter"] == source.drafter:
                last["answer_end"] = end
                if "source_end" in last and "source_end" in span:
                    last["source_end"] = span["source_end"]
                continue
            if last is not None:
                yield last
                span["answer_start"] = max(start, int(last["answer_end"]))
            last = span
        if last is not None:
            yield last

    def _span(self, start: int, end: int, source: TokenOrigin, place: Place) -> dict[str, Any]:
        span: dict[str, Any] = {"answer_start": start, "answer_end": end, "kind": place.kind, "drafter": source.drafter}
        span |= place.names
        if source.offset is not None and source.offset < len(place.spans):
            first, last = place.spans[source.offset]
            if first < last:
                span |= {"source_start": first, "source_end": last}
        return span

    def _place(self, source: TokenOrigin) -> Place:
        key = (source.segment, source.offset is None)
        if key not in self._places:
            self._places[key] = self._find(source)
        return self._places[key]

    def _find(self, source: TokenOrigin) -> Place:
        job, number = self._job, source.segment
        if number is None:
            return Place("neural" if source.offset is None else "itself", {})
        if number < len(job.segments):
            segment = job.segments[number]
            edited = job.edit is not None and job.edit.segment == number
            if segment.kind == "passage":
                return self._passage(segment)
            if segment.kind in ("answer", "edited"):
                pieces = [self._tokens.token_bytes(token) for token in segment.ids or ()]
                offsets = spans(pieces, self._tokens.strips_space)
                return Place("edited" if edited else "answer", {"answer_id": segment.key}, offsets)
            return Place(segment.kind, {})
        beside = number - len(job.segments)
        if beside < len(job.unread):
            passage = job.unread[beside]
            offsets = self._tokens.encode_content(passage["text"]).offsets
            return Place("passage", _names(passage), _moved(offsets, passage["source_start"], passage))
        return Place("prediction" if beside == len(job.unread) and job.prediction is not None else "store", {})

    def _passage(self, segment: Segment) -> Place:
        """A passage's segment holds the passage's text, trimmed, after its title."""
        passage = self._of(segment)
        if passage is None:
            return Place("passage", _names(segment.model_dump(include={"collection", "document_id", "chunk_id"})))
        text = passage["text"]
        head = max(0, segment.text.rfind(text.strip()))
        moved = passage["source_start"] + len(text) - len(text.lstrip()) - head
        offsets = self._tokens.encode_content(segment.text).offsets
        return Place("passage", _names(passage), _moved(offsets, moved, passage))

    def _of(self, segment: Segment) -> dict[str, Any] | None:
        """The passage of a segment; None if the job has it no longer."""
        for passage in self._job.passages:
            if (passage.get("collection"), passage["chunk_id"]) == (segment.collection, segment.chunk_id):
                return passage
        return None


def _names(passage: dict[str, Any]) -> dict[str, str]:
    return {name: passage.get(name) or "" for name in ("collection", "document_id", "chunk_id")}


def _moved(offsets: Sequence[tuple[int, int]], by: int, passage: dict[str, Any]) -> list[tuple[int, int]]:
    """Offsets in the document, cut to the passage: what lies outside of it becomes empty."""
    low, high = passage["source_start"], passage["source_end"]
    return [(min(max(start + by, low), high), min(max(end + by, low), high)) for start, end in offsets]
