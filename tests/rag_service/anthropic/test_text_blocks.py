"""Blocks of an answer's text: the same whatever the pieces it comes in, and each citation in the blocks it covers."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rag_service.anthropic.text_blocks import TextBlocks, cited, documents
from rag_service.contract.answer import Answer
from workers.support.passages.sentences import sentences

LONG = "A line of prose that is much longer than forty letters"
WORDS = st.sampled_from(["A", "fox", " ", ".", "!", "\n", "\n\n", "1", ".", ")", '"', "。", "3.5", "# ", "| ", LONG])
TEXTS = st.lists(WORDS, max_size=30).map("".join)


def pushed(text: str, cuts: list[int], by_sentence: bool = True) -> tuple[TextBlocks, list[str]]:
    """The blocks of a text that comes in pieces, and the text of each, put together from what they gave."""
    blocks = TextBlocks(by_sentence)
    given: dict[int, str] = {}
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(places):
        for index, piece in blocks.push(text[start:end]):
            assert index in (len(given) - 1, len(given)), "the last block, or the next one"
            given[index] = given.get(index, "") + piece
    for index, piece in blocks.push("", last=True):
        given[index] = given.get(index, "") + piece
    return blocks, [given[index] for index in range(len(given))]


@given(TEXTS, st.lists(st.integers(0, 400), max_size=40))
@example(f"{LONG}\n1. next", list(range(80)))
@example(f'{LONG}\n"next"', list(range(80)))
@example(f"{LONG}\n12 foxes", list(range(80)))
@example("\n\n A. B", list(range(10)))
def test_blocks_are_the_sentences_however_the_text_comes(text: str, cuts: list[int]) -> None:
    blocks, given = pushed(text, cuts)
    assert "".join(given) == text
    assert [text[start:end] for start, end in blocks.spans] == given
    begins = [start for start, _ in sentences(text)]
    assert [start for start, _ in blocks.spans][1:] == begins[1:]
    whole, _ = pushed(text, [])
    assert whole.spans == blocks.spans


def test_an_answer_without_passages_is_one_block() -> None:
    blocks, given = pushed("One. Two.\nThree.", [3, 6], by_sentence=False)
    assert given == ["One. Two.\nThree."]
    assert blocks.spans == [(0, 16)]
    for by_sentence in (False, True):
        assert pushed("", [], by_sentence)[0].spans == []


SOURCE = "Foxes jump over dogs. Dogs sleep all day. Nothing else is known."
ANSWER = "Foxes jump over dogs. Dogs sleep all day. They rest."


def answer(*citations: dict[str, Any]) -> Answer:
    common = {"collection": "animals", "document_id": "foxes", "chunk_id": "c"}
    passage = {"title": "Foxes", "text": SOURCE, "source_start": 100, "source_end": 100 + len(SOURCE)}
    other = {**passage, "collection": "animals", "document_id": "dogs", "chunk_id": "d", "title": "Dogs"}
    return Answer.model_validate(
        {
            "answer_id": "a", "session_id": "", "turn": 1, "status": "succeeded", "question": "?", "seed": 1,
            "collection": "animals", "answer": ANSWER,
            "passages": [{**other, "score": 1.0, "rank": 1}, {**common, **passage, "score": 1.0, "rank": 2}],
            "citations": [{**common, **citation} for citation in citations],
        }
    )  # fmt: skip


def test_a_copy_is_cited_part_by_part_and_a_statement_whole() -> None:
    copied = {"kind": "copied", "answer_start": 0, "answer_end": 41, "source_start": 100, "source_end": 141}
    stated = {"kind": "retrieved", "answer_start": 42, "answer_end": 52, "source_start": 122, "source_end": 141}
    given = answer(copied, stated)
    assert documents(given) == [("animals", "dogs"), ("animals", "foxes")]
    blocks, _ = pushed(ANSWER, [])
    found = cited(given, blocks.spans)
    assert [[one["cited_text"] for one in block] for block in found] == [
        ["Foxes jump over dogs."],
        ["Dogs sleep all day."],
        ["Dogs sleep all day."],
    ]
    for block in found:
        for one in block:
            assert (one["document_index"], one["document_title"], one["type"]) == (1, "Foxes", "char_location")
            assert SOURCE[one["start_char_index"] - 100 : one["end_char_index"] - 100] == one["cited_text"]


def test_what_is_not_known_is_not_cited() -> None:
    elsewhere = {"kind": "retrieved", "answer_start": 0, "answer_end": 21, "source_start": 5, "source_end": 9}
    unlisted = {"kind": "copied", "answer_start": 0, "answer_end": 21, "source_start": 100, "source_end": 121}
    blocks, _ = pushed(ANSWER, [])
    assert cited(answer(elsewhere, {**unlisted, "document_id": "cats"}), blocks.spans) == [[], [], []]
    edge = {**unlisted, "answer_start": 20, "answer_end": 41, "source_start": 120, "source_end": 141}
    assert [len(block) for block in cited(answer(edge), blocks.spans)] == [0, 1, 0], "a full stop alone says nothing"
