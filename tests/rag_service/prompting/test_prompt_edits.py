"""Prompts of edits: the conversation up to the answer under edit, that answer once more, and its passages."""

from __future__ import annotations

from typing import Any

import pytest

from rag_service.errors import ContextOverflow
from rag_service.prompting.prompt import Prompt, build
from rag_service.prompting.template import Templates
from workers.broker.messages import Segment, TurnRecord
from workers.tokens.tokenizer import Tokens

TEMPLATE = Templates().of("Why do foxes jump over dogs?")
BEFORE, _, REST = TEMPLATE.edit.partition("{answer}")
CHANGE, _, WHOLE = REST.partition("{instruction}\n\n")


def passage(number: int, text: str = "Foxes jump.") -> dict[str, Any]:
    fields = {"document_id": f"d{number}", "chunk_id": f"d{number}:0", "title": f"Title {number}", "heading": None}
    return {**fields, "text": text, "rank": number}


def make(tokens: Tokens, question: str, passages: Any, turns: Any, window: int = 4000, **changes: Any) -> Prompt:
    return build(
        question, list(passages), list(turns), tokens, window=window, max_tokens=10, template=TEMPLATE, **changes
    )


def follow(prompt: Prompt, number: int, tokens: Tokens) -> TurnRecord:
    text = f"Answer {number}."
    answer = Segment(kind="answer", key=f"a{number}", text=text, ids=tokens.encode_content(text).ids)
    segments = [*prompt.segments[prompt.new_from :], answer]
    return TurnRecord(answer_id=f"a{number}", question="q", segments=segments, passages=prompt.passages, created=0.0)


@pytest.fixture
def turns(tokens: Tokens) -> list[TurnRecord]:
    """Two turns with a passage each."""
    first = follow(make(tokens, "One?", [passage(1)], []), 1, tokens)
    return [first, follow(make(tokens, "Two?", [passage(2)], [first]), 2, tokens)]


def new(prompt: Prompt) -> list[tuple[str, str]]:
    return [(s.kind, s.text) for s in prompt.segments[prompt.new_from :] if s.kind != "template"]


@pytest.mark.parametrize("number", [0, 1])
def test_the_answer_is_quoted_whether_it_is_the_last_one_or_not(
    number: int, tokens: Tokens, turns: list[TurnRecord]
) -> None:
    edited = turns[number].segments[-1]
    prompt = make(tokens, "Name dogs.", [passage(number + 1)], turns, edited=edited)
    assert new(prompt) == [
        ("instruction", BEFORE),
        ("edited", f"Answer {number + 1}."),
        ("instruction", CHANGE),
        ("instruction", "Name dogs.\n\n"),
        ("instruction", WHOLE),
    ]
    assert prompt.edited is not None
    assert prompt.edited > prompt.new_from
    assert prompt.segments[prompt.edited].ids == edited.ids
    before = [segment for turn in turns for segment in turn.segments]
    assert prompt.segments[: len(before)] == before, "the prompt must only grow"
    later = make(tokens, "Three?", [], [*turns, follow(prompt, 3, tokens)])
    assert prompt.segments == later.segments[: len(prompt.segments)]


@pytest.mark.parametrize(("length", "most"), [(40, 20), (3, 5)])
def test_an_answer_that_is_to_be_shorter_has_half_of_its_words(length: int, most: int, tokens: Tokens) -> None:
    text = " ".join(["word"] * length)
    edited = Segment(kind="answer", key="a1", text=text, ids=tokens.encode_content(text).ids)
    told = "".join(text for _, text in new(make(tokens, "Make that shorter.", [], [], edited=edited)))
    assert told.removeprefix(TEMPLATE.system) == TEMPLATE.shorten.format(
        answer=text, instruction="Make that shorter.", words=most
    )


@pytest.mark.parametrize(
    ("question", "instruction", "alone"),
    [
        ("Why do foxes jump?", "Shorter, please.", True),
        ("Why do foxes jump?", "make it a bit shorter", True),
        ("Why do foxes jump?", "Shorter, and in German.", False),
        ("Why do foxes jump?", "Shorten the second sentence.", False),
        ("Why do foxes jump?", "Answer in one short sentence.", False),
        ("Warum springen Füchse über Hunde?", "Kürzer bitte.", True),
        ("Waarom springen vossen over honden?", "Korter graag.", True),
        ("¿Por qué saltan los zorros?", "Hazlo más corto, por favor", True),
        ("狐狸为什么跳过狗？", "请简短一点", True),
    ],
)
def test_only_a_message_that_asks_for_nothing_else_shortens(question: str, instruction: str, alone: bool) -> None:
    assert Templates().of(question).shortens(instruction) is alone


def test_what_was_dropped_stays_dropped_after_an_edit_that_had_kept_it(tokens: Tokens, turns: list[TurnRecord]) -> None:
    """The edit of the first answer has its own prompt, with the passage that the second turn had dropped."""
    full = turns[1].model_copy(update={"forgotten": 1})
    edit = make(tokens, "Shorter.", [passage(1)], turns[:1], edited=turns[0].segments[-1])
    assert [s.chunk_id for s in edit.segments if s.kind == "passage"] == ["d1:0"]
    later = make(tokens, "Three?", [], [turns[0], full, follow(edit, 3, tokens)])
    assert [s.chunk_id for s in later.segments if s.kind == "passage"] == ["d2:0"]
    assert (later.turns_without_passages, later.passages_dropped) == (1, 0)
    assert [s.key for s in later.segments if s.kind == "answer"] == ["a1", "a2", "a3"]


def test_passages_that_left_come_back_with_the_edit(tokens: Tokens, turns: list[TurnRecord]) -> None:
    long = [passage(9, "Foxes jump over dogs. " * 60)]
    crowded = [*turns, follow(make(tokens, "Three?", long, turns), 3, tokens)]
    whole = make(tokens, "Shorter.", [passage(1)], crowded, edited=turns[0].segments[-1])
    assert not [kind for kind, _ in new(whole) if kind == "passage"]
    window = whole.tokens - 100
    prompt = make(tokens, "Shorter.", [passage(1)], crowded, window=window, edited=turns[0].segments[-1])
    assert new(prompt)[0][0] == "passage"
    assert [p["in_prompt"] for p in prompt.passages if p["chunk_id"] == "d1:0"] == [True]
    assert sum(s.kind == "passage" for s in prompt.segments) == 1


def test_an_edit_that_does_not_fit_is_refused(tokens: Tokens, turns: list[TurnRecord]) -> None:
    with pytest.raises(ContextOverflow, match="max_tokens"):
        make(tokens, "Shorter.", [passage(1)], turns, window=40, edited=turns[0].segments[-1])
