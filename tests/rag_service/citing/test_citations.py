"""Citations as spans of text, on texts whose tokens split characters and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.citing.citations import CitedPassage, Stated, Text, cite, stated
from rag_service.citing.text_spans import answer_text, passage_text, spans
from workers.tokens.tokenizer import Tokens

CHARACTERS = st.text(alphabet="ab é東😀\n.", max_size=30)


@given(CHARACTERS, CHARACTERS, CHARACTERS, st.integers(1, 6), st.integers(0, 8))
def test_copied_spans_select_equal_text(
    tokens: Tokens, common: str, before: str, after: str, min_run: int, cut: int
) -> None:
    """Whatever the tokens split: byte-level tokens end inside characters, and a stop string cuts the text."""
    answer = before + common + after
    ids = tokens.encode_content(answer).ids
    shown = answer[: max(0, len(answer) - cut)]
    passage = CitedPassage("c", "d", "d:0", 100, passage_text(after + common + before, tokens))
    for citation in cite(answer_text(ids, shown, tokens), [passage], min_run=min_run):
        if citation.kind == "copied":
            here = shown[citation.answer_start : citation.answer_end]
            there = passage.content.text[citation.source_start - 100 : citation.source_end - 100]
            assert here == there
            assert here == here.strip() != ""


@given(st.lists(st.integers(3, 260), max_size=40), CHARACTERS)
def test_any_ids_are_cited_exactly(tokens: Tokens, ids: list[int], text: str) -> None:
    """Ids a model may choose, broken characters included."""
    shown = tokens.decode(ids)
    passages = [CitedPassage("c", "d", "d:0", 0, passage_text(part, tokens)) for part in (text, shown)]
    for citation in cite(answer_text(ids, shown, tokens), passages, min_run=2):
        source = text if citation.document_id == "d" and citation.kind == "copied" else ""
        here = shown[citation.answer_start : citation.answer_end]
        if citation.kind == "copied":
            assert here in (
                source[citation.source_start : citation.source_end],
                shown[citation.source_start : citation.source_end],
            )


@given(CHARACTERS)
def test_spans_cover_the_text(text: str) -> None:
    pieces = [bytes([byte]) for byte in text.encode()]
    found = spans(pieces)
    assert all(text[start:end].encode().find(piece) >= 0 for (start, end), piece in zip(found, pieces, strict=True))
    assert not found or found[-1][1] == len(text)


def test_offsets_that_leave_out_a_leading_space_still_meet() -> None:
    """Some tokenizers' offsets begin after the space that their token carries."""
    answer = Text([1, 2], [(0, 4), (4, 8)], "The fox ")
    passage = CitedPassage("c", "d", "d:0", 10, Text([1, 2], [(0, 3), (4, 7)], "The fox"))
    (citation,) = cite(answer, [passage], min_run=2)
    assert (citation.answer_start, citation.answer_end) == (0, 7)
    assert (citation.source_start, citation.source_end) == (10, 17)


def pieces(*tokens: str) -> Text:
    """A text of these tokens."""
    text, found = "", []
    for token in tokens:
        found.append((len(text), len(text) + len(token)))
        text += token
    return Text([hash(token) for token in tokens], found, text)


def spans_of(answer: Text, source: Text, min_run: int = 2) -> list[tuple[str, int]]:
    """Text and place in the source of what is cited as copied."""
    cited = cite(answer, [CitedPassage("c", "d", "d:0", 0, source)], min_run=min_run)
    return [(answer.text[c.answer_start : c.answer_end], c.source_start) for c in cited if c.kind == "copied"]


def test_a_span_grows_by_whole_words_that_tokens_split_otherwise() -> None:
    source = pieces("see", " René", " and", " his", " cat", " (now", ")")
    answer = pieces("Ren", "é", " and", " his", " cat", "(", "now", ")")
    assert spans_of(answer, source) == [("René and his cat", 4)]
    source, answer = pieces("see", " his", " cat", " René", "!"), pieces("his", " cat", " Ren", "é")
    assert spans_of(answer, source) == [("his cat René", 4)]


def test_a_span_does_not_grow_into_a_longer_word() -> None:
    source = pieces("the", " fox", "es", " run", " far", "ther")
    answer = pieces("box", "es", " run", " far", "thest")
    assert spans_of(answer, source) == [("es run far", 7)]


def test_a_span_grows_by_no_mark() -> None:
    source = pieces("a", " red", " cat", '",', " he", " said")
    assert spans_of(pieces("one", " red", " cat", '"'), source) == [("red cat", 2)]


def test_spans_with_equal_text_between_are_one() -> None:
    source = pieces("we", " saw", " René", " and", " his", " cat")
    answer = pieces("we", " saw", " Ren", "é", " and", " his", " cat")
    assert spans_of(answer, source) == [("we saw René and his cat", 0)]


def test_spans_with_other_text_between_are_two() -> None:
    source = pieces("we", " saw", " René", " and", " his", " cat")
    answer = pieces("we", " saw", " Ren", "e", " and", " his", " cat")
    assert spans_of(answer, source) == [("we saw", 0), ("and his cat", 12)]


@pytest.mark.parametrize("min_run", [2, 3, 4])
def test_shorter_runs_are_not_cited(min_run: int) -> None:
    source = pieces("one", " of", " the", " red", " cats")
    assert spans_of(pieces("all", " of", " the", " dogs"), source, min_run) == ([("of the", 4)] if min_run == 2 else [])


def test_stop_words_are_not_cited_by_default() -> None:
    source = pieces("one", " of", " the", " most", " of", " all", " in", " the", " end", " it", " is", " a", " cat")
    answer = pieces("some", " of", " the", " dogs", " in", " the", " end", " it", " was", " a", " one", " of", " the")
    assert cite(answer, [CitedPassage("c", "d", "d:0", 0, source)]) == []


def test_a_reworded_sentence_is_a_retrieved_citation() -> None:
    stating = "Refunds are granted within thirty days after purchase when the receipt is shown."
    source = f"Everyone is welcome. {stating} Come again!"
    passages = [
        CitedPassage("c", "x", "x:0", 0, Text([], [], "Nothing about it here at all.")),
        CitedPassage("c", "d", "d:3", 40, Text([], [], source)),
    ]
    answer = "Sure. Within thirty days after purchase, refunds are granted. Bananas grow in tropical places."
    statements = stated("When are refunds granted?", answer, [passage.content.text for passage in passages])
    (citation,) = cite(Text([], [], answer), passages, statements=statements)
    assert citation.kind == "retrieved"
    assert answer[citation.answer_start : citation.answer_end] == (
        "Within thirty days after purchase, refunds are granted."
    )
    assert (citation.chunk_id, citation.source_start, citation.source_end) == ("d:3", 61, 61 + len(stating))


def test_a_sentence_that_says_the_opposite_is_not_cited() -> None:
    source = "Refunds are granted within thirty days after purchase when the receipt is shown."
    answer = "Refunds are not granted within thirty days after purchase."
    assert stated("Are refunds granted?", answer, [source]) == []


def test_a_sentence_that_is_copied_is_not_cited_again() -> None:
    source = pieces("we", " saw", " René", " and", " his", " cat", ".")
    statements = [Stated(0, len(source.text), 0, 0, len(source.text))]
    cited = cite(source, [CitedPassage("c", "d", "d:0", 0, source)], min_run=2, statements=statements)
    assert [citation.kind for citation in cited] == ["copied"]


@pytest.mark.parametrize(
    ("answer", "source", "copied"),
    [
        (("open", " 12:", "00", " to", " 18:", "00"), ("from", " 15:", "00", " to", " 18:", "00"), ["to 18:00"]),
        (("open", " 12:", "00", " to", " 18:", "30"), ("open", " 12:", "00", " to", " 18:", "00"), ["open 12:00 to"]),
        (("it", " costs", " 1", ".", "50"), ("it", " costs", " 1", ".", "75"), ["it costs"]),
        (("it", " costs", " 3", "."), ("it", " costs", " 3", "."), ["it costs 3."]),
        (("1", "00", "0", " kg"), ("2", "00", "0", " kg"), ["kg"]),
        (("1", "00", "0"), ("2", "00", "0"), []),
    ],
)
def test_a_part_of_another_number_is_no_copy(
    answer: tuple[str, ...], source: tuple[str, ...], copied: list[str]
) -> None:
    assert [text for text, _ in spans_of(pieces(*answer), pieces(*source))] == copied


def test_markers_of_a_list_are_no_sentences() -> None:
    """Numbers of an answer's list were cited, each from a passage that happened to have one."""
    passages = ["Music must end at 23:00.", "1 room is closed.", "Cancelling is free up to 30 days before the event."]
    answer = "1. Cancelling is free up to 30 days before the event.\n2. Music must end at 23:00.\n\n3. Bye."
    found = stated("What are the rules for music and cancelling?", answer, passages)
    assert [answer[one.start : one.end] for one in found] == [
        "Cancelling is free up to 30 days before the event.",
        "Music must end at 23:00.",
    ]
    assert [(one.start, one.end) for one in stated("When must music end?", "23:00", passages)] == [(0, 5)]
