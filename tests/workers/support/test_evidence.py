"""Evidence in the passages' words: enough for what they state, little for what they contradict, none for the rest."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.support.calibration import Calibration, shipped
from workers.support.evidence import Evidence, Found
from workers.support.passages.sentences import sentences

CASES = tomllib.loads(Path(__file__).with_name("contradictions.toml").read_text(encoding="utf-8"))["document"]
PAIRS = [
    (document["language"], document["text"], case["question"], case["true"], false)
    for document in CASES
    for case in document["answer"]
    for false in case["false"]
]


def found(language: str, text: str, question: str, answer: str) -> Found:
    return Evidence(question, [text.replace("\n", " ")], language).of(answer)


def support(one: Found, calibration: Calibration) -> float:
    """All signals besides the words' being equal."""
    return calibration.support.chance({"evidence": one.evidence, "covered": one.covered})


def test_there_are_sixty_contradicted_answers() -> None:
    assert len(PAIRS) >= 60
    assert {pair[0] for pair in PAIRS} == {"en", "nl", "de", "es", "zh"}


@pytest.mark.parametrize("own", shipped(), ids=lambda one: f"{one.model}-{'-'.join(one.languages)}")
def test_contradicted_answers_score_below_their_true_twins(own: Calibration) -> None:
    """At least nine of ten: a negation, a number or a name was changed."""
    wrong = [
        (question, true, false)
        for language, text, question, true, false in PAIRS
        if not support(found(language, text, question, false), own)
        < support(found(language, text, question, true), own)
    ]
    assert len(wrong) <= 0.1 * len(PAIRS), wrong


def test_most_true_answers_have_evidence() -> None:
    scores = [
        found(document["language"], document["text"], case["question"], case["true"])
        for document in CASES
        for case in document["answer"]
    ]
    assert sum(one.evidence >= 0.5 for one in scores) >= 0.9 * len(scores)
    assert not any(one.contradicts for one in scores)


def test_an_answer_to_another_question_has_less() -> None:
    text = "Hotels cost at most 180 euros. Meals cost at most 45 euros."
    asked = "What do hotels cost at most?"
    assert found("en", text, asked, "180 euros").evidence > found("en", text, asked, "45 euros").evidence


def test_the_best_sentence_is_named() -> None:
    passages = ["Foxes sleep by day.", "First line.\nThe fox jumps over the lazy dog. It is brown."]
    best = Evidence("What does the fox jump over?", passages).of("The lazy dog.")
    assert best.passage == 1
    assert passages[1][best.start : best.end] == "The fox jumps over the lazy dog."
    assert best.evidence == pytest.approx(1.0)


def test_nothing_has_no_evidence() -> None:
    evidence = Evidence("Who?", ["The fox jumps."])
    assert evidence.of("") == evidence.of("...") == evidence.of("Zebras graze.") == Found()
    assert Evidence("Who jumps?", []).of("The fox.") == Found()


def test_sentences_are_places_in_the_text() -> None:
    text = "One. Two!\n\n- three\n四。五。"
    assert [text[start:end] for start, end in sentences(text)] == ["One.", "Two!", "- three", "四。", "五。"]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Resturlaub verfällt am 31. März des folgenden Jahres. Danach nicht.", 1),
        ("Die Frist endet am 31. 12. 2026. Dann ist Schluss.", 1),
        ("Das Büro liegt im 2. Stock links. Bitte klingeln.", 1),
        ("Feriepenge betales den 1. maj. Det gælder alle.", 1),
        ("Es kostet ca. 5 Euro, z. B. bar. Dr. Meier weiß es.", 1),
        ("See nr. 3, e.g. the red one. Mr. Smith knows.", 1),
        ("The price rose to 31. Then it fell.", 1),
        ("It takes 5 ms. We chose plan B. He likes modern art. That is all.", 3),
        ("Open it within 10 min. Then close it.", 1),
        ("She was born in 1956. He was not.", 1),
    ],
)
def test_a_full_stop_within_a_sentence_does_not_end_it(text: str, ends: int) -> None:
    """A right answer with the date "31. März" had little support: its halves were two claims."""
    assert len(sentences(text)) == ends + 1


def test_a_date_in_the_answer_is_supported_by_the_same_sentence() -> None:
    said = "Resturlaub verfällt am 31. März des folgenden Jahres."
    best = Evidence("Bis wann verfällt Resturlaub?", [f"Jeder hat 30 Tage. {said}"], "de").of(said)
    assert best.evidence == pytest.approx(1.0)


@given(st.text(max_size=80), st.text(max_size=60), st.text(max_size=200), st.sampled_from(["en", "nl", "zh", "xx"]))
def test_any_texts_give_a_share(question: str, claim: str, passage: str, language: str) -> None:
    one = Evidence(question, [passage], language).of(claim)
    assert 0 <= one.evidence <= 1 + 1e-9
    assert 0 <= one.covered <= 1 + 1e-9
    assert one.passage in (-1, 0)


@given(st.text(alphabet="ab c.\n", min_size=1, max_size=60))
def test_the_same_text_always_gives_the_same(text: str) -> None:
    assert Evidence("a b", [text]).of("c a") == Evidence("a b", [text]).of("c a")


PASSAGES = [
    "The hotel limit is 140 euros. Alcohol is not paid.",
    "The meal allowance is 45 euros. It was raised in May.",
]


def test_the_sentences_of_an_answer_speak_of_the_question_together() -> None:
    evidence = Evidence("What are the hotel limit and the meal allowance?", PASSAGES)
    claims = ["The hotel limit is 140 euros.", "The meal allowance is 45 euros."]
    alone = [evidence.of(claim) for claim in claims]
    together = evidence.of_answer(claims)
    assert [one.passage for one in together] == [0, 1]
    assert all(both.evidence > one.evidence > 0 for both, one in zip(together, alone, strict=True))
    assert all(one.evidence == pytest.approx(1.0) for one in together)


def test_a_sentence_without_a_word_of_the_question_counts_beside_others() -> None:
    evidence = Evidence("What is the meal allowance?", PASSAGES)
    assert evidence.of("Raised in May.").evidence == 0
    first, second = evidence.of_answer(["The meal allowance is 45 euros.", "Raised in May."])
    assert (second.passage, second.covered) == (1, pytest.approx(1.0))
    assert 0 < second.evidence <= first.evidence


def test_one_sentence_is_taken_as_it_is_and_a_contradiction_stays_one() -> None:
    evidence = Evidence("What are the hotel limit and the meal allowance?", PASSAGES)
    for claim in ("The hotel limit is 140 euros.", "Zebras graze.", "", "Alcohol is paid."):
        assert evidence.of_answer([claim]) == [evidence.of(claim)]
    wrong, right = evidence.of_answer(["The hotel limit is 150 euros.", "The meal allowance is 45 euros."])
    assert wrong.contradicts
    assert wrong.evidence < 0.3 < right.evidence
    assert evidence.of_answer([]) == []


WRAPPED = """The hotel limit is 140 euros per night. In Zurich, London and
New York the limit is 210 euros per night, and in all the other cities of
the world it is what the desk says
# Meals and drinks, for which other limits hold than for rooms
- Meals cost 45 euros a day for everybody who travels, guests too
- Drinks cost nothing
Apples | 40 cents a piece in every shop | since the year 2020
Pears | 50 cents
1. One"""


def test_a_sentence_goes_on_in_the_next_line_of_prose() -> None:
    assert [WRAPPED[start:end].replace("\n", " ") for start, end in sentences(WRAPPED)] == [
        "The hotel limit is 140 euros per night.",
        "In Zurich, London and New York the limit is 210 euros per night, and in all the other cities of the world it "
        "is what the desk says",
        "# Meals and drinks, for which other limits hold than for rooms",
        "- Meals cost 45 euros a day for everybody who travels, guests too",
        "- Drinks cost nothing",
        "Apples | 40 cents a piece in every shop | since the year 2020",
        "Pears | 50 cents",
        "1.",
        "One",
    ]
    found = Evidence("What is the limit in New York?", [WRAPPED]).of("In New York the limit is 210 euros per night.")
    assert found.evidence > 0.8
    assert "\n" in WRAPPED[found.start : found.end]


def test_a_copied_sentence_is_not_compared_with_another_that_has_the_question_s_words() -> None:
    passage = "The hotel limit is 140 euros. In Zurich it is 210 euros. The meal allowance is 45 euros."
    evidence = Evidence("What does the policy say about hotels and meals?", [passage])
    claims = [passage[start:end] for start, end in sentences(passage)]
    assert [passage[one.start : one.end] for one in evidence.of_answer(claims)] == claims


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How high may a fence be?", "Fences may reach 2 metres."),
        ("How big may a shed be?", "Sheds may cover up to 9 square metres."),
    ],
)
def test_sentences_need_not_repeat_how_high_something_is(question: str, answer: str) -> None:
    rules = "Fences may reach 2 metres. Sheds may cover up to 9 square metres."
    assert Evidence(question, [rules], "en").of(answer).evidence >= 0.8
