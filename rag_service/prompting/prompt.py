"""Prompts in token space: the ordered segments of a turn. Pure.

An edit is a turn as well: it holds the answer under edit once more, next to what to change, and asks for the whole
revised answer.

A prompt's ids are those of its template pieces and of its contents, in order; content never yields control tokens. The
prompt of a session only grows: the system message, then for each turn its new passages, its question and its answer.
An edit's ends at the turn of the answer under edit, and questions after it find all turns in order.
The best passage stands next to the question: small models read what is near.
Knows segments, the chat template's pieces and the window; knows no Redis and no model.

If the window is too small, the passages of the oldest turns are dropped first, then this turn's passages from the
lowest rank on (but for the best one), then the oldest turns with question and answer. What was dropped does not come
back, and more room is made than this turn needs: one answer pays for a new prefill, and the prompt grows again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rag_service.errors import ContextOverflow
from rag_service.prompting.shown import Passage, PassageText, shown_in, text_of
from rag_service.prompting.template import PromptTemplate, parts
from workers.broker.messages import Segment, SegmentKind, TurnRecord

LEAST_WORDS = 5
"""Words that the shortest answer may have."""
LONGEST_WORDS = 20
"""Characters a word from which on a text's script has no spaces between words."""
FREED = 0.25
"""Share of the window that is freed for later turns when passages or turns are dropped."""


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class PromptTokens(Protocol):
    """The part of `workers.tokens.tokenizer.Tokens` that prompts need."""

    def encode_content(self, text: str) -> _Encoding: ...

    def encode_template(self, text: str) -> list[int]: ...

    def template_pieces(
        self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> Sequence[str | int]: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """A turn's prompt.

    Attributes:
        segments: the whole prompt, including earlier turns.
        new_from: index of the first segment that this turn adds.
        tokens: length of the prompt.
        passages: this turn's in rank order, with `in_prompt`; then those of earlier turns that are still in the prompt,
            marked `earlier`, with ranks that continue.
        edited: index of the segment that is the answer under edit.
        turns_without_passages: the number of turns, the oldest, whose passages were dropped.
        passages_dropped: the number of earlier turns' passages dropped since the last turn.
        dropped_turns: the number of turns, the oldest, that the prompt does not hold at all.
        newly_dropped_turns: the number of them that the last turn's prompt still held.
    """

    segments: list[Segment]
    new_from: int
    tokens: int
    passages: list[dict[str, Any]]
    edited: int | None = None
    turns_without_passages: int = 0
    passages_dropped: int = 0
    dropped_turns: int = 0
    newly_dropped_turns: int = 0

    def citing(self, passages: Sequence[Passage], read: int | None = None) -> Prompt:
        """The same prompt, of an answer that cites passages which it does not hold: the first `read` of them."""
        cited = [
            {**passage, "in_prompt": read is None or n < read, "earlier": False} for n, passage in enumerate(passages)
        ]
        return replace(self, passages=[*cited, *self.passages])


def build(
    question: str,
    passages: Sequence[Passage],
    turns: Sequence[TurnRecord],
    tokens: PromptTokens,
    *,
    window: int,
    max_tokens: int,
    template: PromptTemplate,
    grounded: bool = True,
    whole: bool = False,
    notes: Sequence[Segment] = (),
    edited: Segment | None = None,
    left_out: Collection[int] = (),
) -> Prompt:
    """The prompt of a new turn.

    Args:
        question: as the user wrote it; for an edit, its instruction.
        passages: those retrieved for this turn, best first; for an edit, those of the answer under edit.
        turns: the session's finished turns, oldest first; for an edit, up to that of the answer under edit.
        window: tokens that the model can hold, prompt and answer together.
        max_tokens: most tokens of the answer.
        template: our own texts. A session keeps the system message of its first turn.
        grounded: whether retrieval is on.
        whole: whether the passages are those of one document: they keep their order, and the last ones are dropped.
        notes: places of notes on a document, in place of passages.
        edited: the answer under edit, with its ids; None for a question.
        left_out: indexes of the turns that the prompt does not hold.

    Raises:
        ContextOverflow: the question does not fit even without passages and earlier turns.
    """
    room = window - max_tokens
    count, fits = len(turns), len(passages)
    # An edit of an old answer may have kept what a turn before it dropped: the most that any dropped counts.
    bare = min(max((turn.forgotten for turn in turns), default=0), count)  # turns without passages
    dropped = min(max((turn.gone for turn in turns), default=0), bare)
    dropped_before = dropped
    system = _contents(turns[0], True).system if turns else (content_segment("system", _system(template, grounded)),)
    kept = [(n, turn) for n, turn in enumerate(turns) if n not in left_out]
    shown_before = shown_in(turn for n, turn in kept if n >= bare)

    def assemble(bare: int, dropped: int, fits: int) -> Prompt:
        earlier = [_contents(turn, with_passages=n >= bare) for n, turn in kept if n >= dropped]
        shown = shown_in(turn for n, turn in kept if n >= max(bare, dropped))
        new = [passage for passage in passages[:fits] if text_of(passage) not in shown]
        if edited is None:
            asked = template.whole if whole else template.question
            user = _question(question, asked if passages or notes or shown else template.no_passages, grounded)
        else:
            user = _edit(question, template, edited)
        ordered = new if whole else reversed(new)  # the best one last
        new_passages = [passage_segment(passage, template) for passage in ordered]
        segments, new_from, size = _assemble([*new_passages, *notes, *user], earlier, tokens, system)
        return Prompt(
            segments,
            new_from,
            size,
            listed(passages, passages[:fits], shown, turns),
            None if edited is None else _last(segments, edited.key),
            turns_without_passages=bare,
            passages_dropped=len(shown_before - shown - set(map(text_of, new))),
            dropped_turns=dropped,
            newly_dropped_turns=dropped - dropped_before,
        )

    def least(first: int, size: Callable[[int], int]) -> int:
        """The least number of turns whose dropping makes enough room; includes the last turn only if it must."""
        for number in range(first, count):
            if size(number) <= ((1 - FREED) * room if number < count - 1 else room):
                return number
        return count

    prompt = assemble(bare, dropped, fits)
    if prompt.tokens > room:
        bare = least(bare + 1, lambda number: assemble(number, dropped, fits).tokens)
        prompt = assemble(bare, dropped, fits)
    while prompt.tokens > room and fits > 1:
        fits -= 1
        prompt = assemble(bare, dropped, fits)
    if prompt.tokens > room:
        dropped = least(dropped + 1, lambda number: assemble(count, number, fits).tokens)
        prompt = assemble(count, dropped, fits)
        while fits < len(passages) and (wider := assemble(count, dropped, fits + 1)).tokens <= room:
            fits, prompt = fits + 1, wider
    if prompt.tokens > room:
        prompt = assemble(count, dropped, 0)
    if prompt.tokens > room:
        raise overflow(prompt.tokens, max_tokens, window)
    return prompt


@dataclass(frozen=True, slots=True)
class _Turn:
    """The contents of a finished turn, without control pieces."""

    system: tuple[Segment, ...]
    user: tuple[Segment, ...]
    answer: Segment


def _contents(turn: TurnRecord, with_passages: bool) -> _Turn:
    *prompt, answer = turn.segments
    skipped = ("system", "template") if with_passages else ("system", "template", "passage")
    system = tuple(s for s in prompt if s.kind == "system")
    return _Turn(system, tuple(s for s in prompt if s.kind not in skipped), answer)


def _question(question: str, text: str, grounded: bool) -> list[Segment]:
    content = content_segment("question", question)
    return filled(text, {"question": content}) if grounded else [content]


def _edit(instruction: str, template: PromptTemplate, edited: Segment) -> list[Segment]:
    """The answer again, next to what to change about it."""
    contents = {
        "instruction": content_segment("instruction", instruction.strip()),
        "answer": edited.model_copy(update={"kind": "edited"}),
        "words": content_segment("instruction", str(_half_of(edited.text))),
    }
    return filled(template.shorten if template.shortens(instruction) else template.edit, contents)


def _half_of(text: str) -> int:
    """Half of a text's words, or of its characters in a script without spaces; at least LEAST_WORDS."""
    words = len(text.split())
    return max(LEAST_WORDS, (words if len(text) < LONGEST_WORDS * words else len(text)) // 2)


def filled(text: str, contents: Mapping[str, Segment]) -> list[Segment]:
    """A template text as segments: its own words are instructions, its slots are the contents.

    Borders sit after line ends, where tokens rarely cross them: the line ends after a slot go with its contents.
    """
    segments: list[Segment] = []
    for part, slot in parts(text):
        if slot is not None:
            segments.append(contents[slot])
            continue
        own = part
        if segments and segments[-1].kind in ("question", "instruction"):
            own = part.lstrip("\n")
            last = segments.pop()
            segments.append(content_segment(last.kind, last.text + part[: len(part) - len(own)]))
        if own:
            segments.append(content_segment("instruction", own))
    return segments


def _system(template: PromptTemplate, grounded: bool) -> str:
    return template.system if grounded else template.system_without_passages


def _last(segments: Sequence[Segment], key: str) -> int:
    """Index of the last answer or quote with this key."""
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


def passage_segment(passage: Passage, template: PromptTemplate) -> Segment:
    """A passage with its title, heading and date, ending with a line end."""
    title = f"{heading_line(passage)} ({passage['date']})" if passage.get("date") else heading_line(passage)
    text = template.passage.format(title=title, text=passage["text"].strip())
    return Segment(
        kind="passage",
        key=_key(text),
        text=text,
        collection=passage.get("collection"),
        document_id=passage["document_id"],
        chunk_id=passage["chunk_id"],
    )


def heading_line(passage: Passage) -> str:
    """Title and heading of a passage; only the heading if it begins with the title."""
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
    passages: Sequence[Passage], fitting: Sequence[Passage], shown: set[PassageText], turns: Sequence[TurnRecord]
) -> list[dict[str, Any]]:
    in_prompt = shown | {text_of(passage) for passage in fitting}
    # For an edit, `earlier` stays as it was for the answer under edit.
    listed = [
        {**passage, "in_prompt": text_of(passage) in in_prompt, "earlier": bool(passage.get("earlier"))}
        for passage in passages
    ]
    known = {text_of(passage) for passage in passages}
    rank = len(listed)
    for passage in (passage for turn in reversed(turns) for passage in turn.passages):
        if text_of(passage) in shown and text_of(passage) not in known:
            known.add(text_of(passage))
            rank += 1
            listed.append({**passage, "in_prompt": True, "earlier": True, "rank": rank})
    return listed


def content_segment(kind: SegmentKind, text: str) -> Segment:
    return Segment(kind=kind, key=_key(text), text=text)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def overflow(prompt_tokens: int, max_tokens: int, window: int) -> ContextOverflow:
    return ContextOverflow(
        f"The prompt takes {prompt_tokens:,} tokens without passages and max_tokens is {max_tokens:,}, but the model's "
        f"window has {window:,} tokens. Send a shorter text or lower max_tokens.",
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        window=window,
    )
