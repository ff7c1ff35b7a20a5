"""Prompts in token space: the ordered segments of a turn. Pure.

An edit is a turn as well: it asks for the whole revised answer. The answer under edit stands in the conversation as its
last answer; an older one is quoted before the instruction.

A prompt's ids are those of its template pieces and of its contents, in order; content never yields control tokens. A
session's prompt only grows: system, then per turn its new passages, its question and its answer. Knows segments, the
chat template's pieces and the window; knows no Redis and no model.

When the window has no room, the passages of the oldest turns leave first, then this turn's passages from the lowest
rank on, all but the best, then the oldest turns, question and answer. What left stays away, and some room is made
beyond what this turn needs: so one answer pays a fresh prefill, and the prompt grows again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rag_service.errors import ContextOverflow
from workers.broker.messages import Segment, SegmentKind, TurnRecord

SYSTEM = (
    "You answer questions with the help of passages from the user's documents. Use only what the passages say, and "
    "quote their words exactly where you can. If the passages do not hold the answer, say that the documents do not "
    "answer the question."
)
SYSTEM_WITHOUT_PASSAGES = "You are a helpful assistant. If you do not know the answer, say so."
INSTRUCTION = "First quote, word for word, the sentences of the passages that answer the question, then explain."
WHOLE = "Write the whole revised answer, and leave everything else in it exactly as it is, word for word."
EARLIER = "This is an earlier answer of yours:\n\n"
NOTHING_FOUND = "No passage was found for this question: say that the documents do not answer it."
FREED = 0.25
"""Share of the window's room that is made free for coming turns, once passages or turns have to leave."""

Passage = Mapping[str, Any]
"""A passage as it travels in jobs: the fields of `passages[]`."""


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class PromptTokens(Protocol):
    """What this module asks of `workers.tokens.tokenizer.Tokens`."""

    def encode_content(self, text: str) -> _Encoding: ...

    def encode_template(self, text: str) -> list[int]: ...

    def template_pieces(
        self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> Sequence[str | int]: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """A turn's prompt.

    Attributes:
        segments: the whole prompt, earlier turns included.
        new_from: index of the first segment that this turn adds.
        tokens: length of the prompt.
        passages: this turn's, in rank order, `in_prompt` telling which have room; then the earlier turns' that are
            still in the prompt, marked `earlier`, their ranks continuing.
        edited: index of the segment that is the answer under edit.
        forgotten: how many turns, the oldest, stand there without their passages.
        left: how many passages of earlier turns are gone since the last turn.
        gone: how many turns, the oldest, are not there at all.
        turns_left: how many of them left since the last turn.
    """

    segments: list[Segment]
    new_from: int
    tokens: int
    passages: list[dict[str, Any]]
    edited: int | None = None
    forgotten: int = 0
    left: int = 0
    gone: int = 0
    turns_left: int = 0


def build(
    question: str,
    passages: Sequence[Passage],
    turns: Sequence[TurnRecord],
    tokens: PromptTokens,
    *,
    window: int,
    max_tokens: int,
    grounded: bool = True,
    edited: Segment | None = None,
) -> Prompt:
    """The prompt of a new turn.

    Args:
        question: as the user wrote it; of an edit, its instruction.
        passages: retrieved for this turn, best first; of an edit, those of the answer under edit.
        turns: the session's finished turns, oldest first.
        window: tokens that the model can hold, prompt and answer together.
        max_tokens: most tokens of the answer.
        grounded: whether passages were looked for.
        edited: the answer under edit, with its ids; None for a question.

    Raises:
        ContextOverflow: even alone and without passages it does not fit; says by how much and what to lower.
    """
    room = window - max_tokens
    count, fits = len(turns), len(passages)
    forgotten = min(turns[-1].forgotten, count) if turns else 0
    gone = min(turns[-1].gone, forgotten) if turns else 0
    system = _contents(turns[0], True).system if turns else (content_segment("system", _system(grounded)),)
    before = _shown(s for turn in turns[forgotten:] for s in turn.segments)
    already_gone = gone

    def made(forgotten: int, gone: int, fits: int) -> Prompt:
        earlier = [_contents(turn, with_passages=n >= forgotten) for n, turn in enumerate(turns)][gone:]
        shown = _shown(s for turn in earlier for s in turn.user)
        new = [passage for passage in passages[:fits] if passage["chunk_id"] not in shown]
        if edited is None:
            asked = _asked(question, grounded, bool(passages or shown))
        else:
            asked = _instructed(question, edited, quoted=not earlier or edited.key != earlier[-1].answer.key)
        segments, new_from, size = _assemble([*map(passage_segment, new), *asked], earlier, tokens, system)
        every = listed(passages, passages[:fits], shown, turns)
        place = None if edited is None else _last(segments, edited.key)
        left = len(before - _shown(segments))
        return Prompt(segments, new_from, size, every, place, forgotten, left, gone, gone - already_gone)

    def leaving(first: int, size: Callable[[int], int]) -> int:
        """How many leave, so that some room is made; the last turn and what it showed only where they must."""
        for number in range(first, count):
            if size(number) <= ((1 - FREED) * room if number < count - 1 else room):
                return number
        return count

    prompt = made(forgotten, gone, fits)
    if prompt.tokens > room:
        forgotten = leaving(forgotten + 1, lambda number: made(number, gone, fits).tokens)
        prompt = made(forgotten, gone, fits)
    while prompt.tokens > room and fits > 1:
        fits -= 1
        prompt = made(forgotten, gone, fits)
    if prompt.tokens > room:
        gone = leaving(gone + 1, lambda number: made(count, number, fits).tokens)
        prompt = made(count, gone, fits)
        while fits < len(passages) and (wider := made(count, gone, fits + 1)).tokens <= room:
            fits, prompt = fits + 1, wider
    if prompt.tokens > room:
        prompt = made(count, gone, 0)
    if prompt.tokens > room:
        raise overflow(prompt.tokens, max_tokens, window)
    return prompt


@dataclass(frozen=True, slots=True)
class _Turn:
    """Contents of a finished turn, control pieces left out."""

    system: tuple[Segment, ...]
    user: tuple[Segment, ...]
    answer: Segment


def _contents(turn: TurnRecord, with_passages: bool) -> _Turn:
    *asked, answer = turn.segments
    left_out = ("system", "template") if with_passages else ("system", "template", "passage")
    system = tuple(s for s in asked if s.kind == "system")
    return _Turn(system, tuple(s for s in asked if s.kind not in left_out), answer)


def _shown(segments: Iterable[Segment]) -> set[str | None]:
    """Ids of the chunks among them."""
    return {segment.chunk_id for segment in segments if segment.kind == "passage"}


def _asked(question: str, grounded: bool, anything: bool) -> list[Segment]:
    """A question, and how to answer it."""
    if not grounded:
        return [content_segment("question", question)]
    return [
        content_segment("question", f"{question}\n\n"),
        content_segment("instruction", INSTRUCTION if anything else NOTHING_FOUND),
    ]


def _instructed(instruction: str, edited: Segment, quoted: bool) -> list[Segment]:
    """What to change about an answer; the answer goes before it where it is not the last one."""
    asked = [content_segment("instruction", f"{instruction.strip()}\n\n"), content_segment("instruction", WHOLE)]
    if not quoted:
        return asked
    quote = edited.model_copy(update={"kind": "edited"})
    return [content_segment("instruction", EARLIER), quote, content_segment("instruction", "\n\n"), *asked]


def _system(grounded: bool) -> str:
    return SYSTEM if grounded else SYSTEM_WITHOUT_PASSAGES


def _last(segments: Sequence[Segment], key: str) -> int:
    """Where the last answer or quote with this key stands."""
    return max(n for n, segment in enumerate(segments) if segment.key == key and segment.kind in ("answer", "edited"))


def _assemble(
    user: Sequence[Segment], earlier: Sequence[_Turn], tokens: PromptTokens, system: Sequence[Segment]
) -> tuple[list[Segment], int, int]:
    """(segments, index of the first new one, length in tokens)."""
    roles = ["system"]
    contents: list[Sequence[Segment]] = [system]
    for turn in earlier:
        roles += ["user", "assistant"]
        contents += [turn.user, [turn.answer]]
    roles.append("user")
    contents.append(user)

    segments: list[Segment] = []
    new_from = 0
    for piece in tokens.template_pieces([{"role": role, "content": ""} for role in roles], True):
        if isinstance(piece, str):
            segments.append(content_segment("template", piece))
        else:
            segments += contents[piece]
            if roles[piece] == "assistant":
                new_from = len(segments)
    return segments, new_from, sum(length(segment, tokens) for segment in segments)


def passage_segment(passage: Passage) -> Segment:
    """A passage under its title and heading, ending with a line end."""
    text = f"[{heading_line(passage)}]\n{passage['text'].strip()}\n\n"
    return Segment(
        kind="passage",
        key=_key(text),
        text=text,
        document_id=passage["document_id"],
        chunk_id=passage["chunk_id"],
    )


def heading_line(passage: Passage) -> str:
    """Title and heading of a passage; the title once where the heading begins with it."""
    title, heading = str(passage["title"]), str(passage.get("heading") or "")
    if heading.startswith(title):
        return heading
    return f"{title} > {heading}" if heading else title


def length(segment: Segment, tokens: PromptTokens) -> int:
    """Tokens of a segment."""
    if segment.ids is not None:
        return len(segment.ids)
    if segment.kind == "template":
        return len(tokens.encode_template(segment.text))
    return len(tokens.encode_content(segment.text).ids)


def listed(
    passages: Sequence[Passage], fitting: Sequence[Passage], shown: set[str | None], turns: Sequence[TurnRecord]
) -> list[dict[str, Any]]:
    in_prompt = shown | {passage["chunk_id"] for passage in fitting}
    # Of an edit: `earlier` is what it was for the answer under edit.
    listed = [
        {**passage, "in_prompt": passage["chunk_id"] in in_prompt, "earlier": bool(passage.get("earlier"))}
        for passage in passages
    ]
    known = {passage["chunk_id"] for passage in passages}
    rank = len(listed)
    for passage in (passage for turn in reversed(turns) for passage in turn.passages):
        if passage["chunk_id"] in shown and passage["chunk_id"] not in known:
            known.add(passage["chunk_id"])
            rank += 1
            listed.append({**passage, "in_prompt": True, "earlier": True, "rank": rank})
    return listed


def content_segment(kind: SegmentKind, text: str) -> Segment:
    return Segment(kind=kind, key=_key(text), text=text)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def overflow(prompt_tokens: int, max_tokens: int, window: int) -> ContextOverflow:
    return ContextOverflow(
        f"The prompt takes {prompt_tokens:,} tokens without any passage and max_tokens is {max_tokens:,}, but the "
        f"model's window is {window:,} tokens: send a shorter text or lower max_tokens.",
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        window=window,
    )
