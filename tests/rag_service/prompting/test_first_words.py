"""Which second answers may not begin with yes or no, and which tokens that keeps back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_service.access.principal import Principal
from rag_service.contract.schemas import QueryRequest
from rag_service.prompting import conversation, questions
from rag_service.prompting.checking import Support
from rag_service.prompting.conversation import Conversation, Message
from rag_service.prompting.first_words import openings, verb_of
from rag_service.prompting.generation_options import Repetitions
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import PromptTemplate, Templates
from workers.broker.messages import GenerateJob, Segment
from workers.tokens.tokenizer import Tokens

ASKED = "Is the pool open on Mondays?"
TEMPLATE = Templates().of(ASKED)
REFUSAL = TEMPLATE.refusal
SUPPORT = Support(TEMPLATE, "en", "", "warn", 0.25)
COMMON: dict[str, Any] = {
    "principal": Principal(),
    "answer_id": "a",
    "window": 4000,
    "max_tokens": 50,
    "grounded": True,
    "drafter": "plain",
    "repetitions": Repetitions(0, 2, 0, 2),
}
"""What all jobs are made with."""
PASSAGE: dict[str, Any] = {
    "document_id": "d1",
    "chunk_id": "d1:0",
    "title": "Pool",
    "heading": None,
    "text": "The pool is closed on Mondays.",
    "rank": 1,
}


@pytest.mark.parametrize(
    ("question", "language", "asks"),
    [
        ("Is the pool open on Mondays?", "en", True),
        ("can i sell beer at the party", "en", True),
        ("Don’t I need a permit?", "en", True),
        ("And may dogs come along?", "en", True),
        ("My son wants to climb alone. Is that allowed?", "en", True),
        ("Can I cancel for free when it rains?", "en", True),
        ("When is the pool open?", "en", False),
        ("What is open on Mondays?", "en", False),
        ("Until when can I cancel?", "en", False),
        ("Opening hours?", "en", False),
        ("The pool is open when?", "en", False),
        ("Darf mein Hund auf den Spielplatz?", "de", True),
        ("Und gibt es eine Ladestation?", "de", True),
        ("Arbeitet Frau Hansen am Mittwoch?", "de", True),
        ("Beträgt die Kaution 400 Euro?", "de", True),
        ("Kriegen Studenten Ermäßigung?", "de", True),
        ("Wann arbeitet Frau Hansen?", "de", False),
        ("Mit welchem Bus komme ich hin?", "de", False),
        ("Seit wann gilt die Regel?", "de", False),
        ("Mag ik konijnen houden?", "nl", True),
        ("is de winkel op dinsdag open", "nl", True),
        ("Accepteert de winkel contant geld?", "nl", True),
        ("Wat kost de winkel?", "nl", False),
        ("Met wie moet ik bellen?", "nl", False),
        ("Hoe laat opent de winkel?", "nl", False),
        ("¿Está abierta la piscina?", "es", False),
        ("游泳池周一开吗？", "zh", False),
        ("The site says it is closed on Monday. Is that right?", "en", True),
        ("May 2024 fees", "en", False),
        ("Must-have documents for members", "en", False),
        ("Can you tell me when the pool opens?", "en", False),
        ("Could you please explain how renewals work?", "en", False),
        ("Können Sie mir erklären, wie das geht?", "de", False),
        ("Kun je ze allemaal noemen?", "nl", False),
        ("My son is 12, may he travel alone?", "en", True),
        ("If it rains, is the tour cancelled?", "en", True),
        ("Wenn es regnet, fällt die Führung dann aus?", "de", False),
        ("Mein Sohn ist zwölf, darf er allein fahren?", "de", True),
        ("Als het regent, krijg ik dan mijn geld terug?", "nl", True),
        ("If I come late, what happens?", "en", False),
        ("Tell me, when it rains, what is open?", "en", False),
        ("Can you tell me which rooms are free, is that known?", "en", False),
        ("Dogs, cats, are allowed.", "en", False),
        ("Which documents, if any, are needed?", "en", False),
        ("Who in Bergen, Norway, is responsible?", "en", False),
        ("Wer, außer Mitgliedern, darf segeln?", "de", False),
        ("Welke boten, behalve de kano, mag ik huren?", "nl", False),
        ("The rooms are free, can you tell me about them?", "en", False),
        ("", "en", False),
        ("?!", "de", False),
    ],
)
def test_questions_that_yes_or_no_answers(question: str, language: str, asks: bool) -> None:
    assert (verb_of(question, language) is not None) == asks


def begins_with(answer: str, runs: list[list[int]], tokens: Tokens) -> bool:
    ids = tokens.encode_content(answer).ids
    return any(ids[: len(run)] == run for run in runs)


def test_yes_no_the_refusal_and_the_questions_first_word_are_kept_back(tokens: Tokens) -> None:
    runs = openings(ASKED, REFUSAL, tokens)
    for answer in ("Yes, it is.", " Yes.", "yes", "No.", " no", "Is it open?", REFUSAL, "The documents say nothing."):
        assert begins_with(answer, runs, tokens), answer
    for answer in ("The pool is closed.", " On Mondays", "Mondays", "Nothing", "Ja", "This document"):
        assert not begins_with(answer, runs, tokens), answer


@pytest.mark.parametrize(
    ("question", "free", "verb"),
    [
        ("The site says Monday is closed. Is that right?", "The pool", "Is"),
        ("Die Fähre fährt montags. Stimmt das?", "Die Fähre", "Stimmt"),
        ("So can I come?", "So it is", "Can"),
    ],
)
def test_of_several_sentences_the_verb_is_kept_back(tokens: Tokens, question: str, free: str, verb: str) -> None:
    runs = openings(question, "?", tokens)
    assert begins_with(verb, runs, tokens)
    assert not begins_with(free, runs, tokens)


def test_other_languages_keep_back_their_own(tokens: Tokens) -> None:
    german = openings("Darf mein Hund auf den Platz?", "Die Dokumente sagen dazu nichts.", tokens)
    dutch = openings("Mag mijn hond op het veld?", "De documenten zeggen dit niet.", tokens)
    for word, own, other in (("Nein", german, dutch), ("Darf", german, dutch), ("Mag", dutch, german)):
        assert begins_with(word, own, tokens)
        assert not begins_with(word, other, tokens)
    assert not begins_with("Niet-leden", dutch, tokens), "Nee alone"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("When is the pool open?", ()),
        (f"{ASKED} Answer with yes or no.", ()),
        (f"Yes/no: {ASKED}", ()),
        (ASKED, ("Reply YES if the documents say so and NO otherwise.",)),
        (ASKED, ("Begin your answer with yes or with no.",)),
        (ASKED, ("Answer Y/N",)),
        ("Darf mein Hund mit? Antworte nur mit Ja, sonst mit Nein", ()),
        (ASKED, ("Answer “Yes” or “No” and nothing else.",)),
        ("Darf mein Hund mit? Antworte mit Ja oder Nein.", ()),
        ("Mag mijn hond mee? Zeg ja of nee.", ()),
    ],
)
def test_who_asks_for_yes_or_no_may_get_it(tokens: Tokens, question: str, told: tuple[str, ...]) -> None:
    assert openings(question, REFUSAL, tokens, told) == []


def turn(
    tokens: Tokens,
    passages: Any = (PASSAGE,),
    revised: Segment | None = None,
    whole: bool = False,
    retrieved: Retrieved | None = None,
    template: PromptTemplate = TEMPLATE,
    **request: Any,
) -> list[list[int]]:
    """The openings in the job of a session's question."""
    asked = {"question": ASKED, **request}
    job = questions.job(
        QueryRequest(**asked),
        retrieved or Retrieved(str(asked["question"]), list(passages), whole=whole),
        [],
        tokens,
        **COMMON,
        session_id="s",
        collection="pool",
        template=template,
        support=replace(SUPPORT, template=template),
        revised=revised,
    )
    return openings_of(job)


def chat(tokens: Tokens, *messages: tuple[str, str], **request: Any) -> list[list[int]]:
    """The openings in the job of a client that keeps its own history."""
    texts = tuple(Message(role=role, text=text) for role, text in messages)
    job = conversation.job(
        Conversation(messages=texts, collection="pool", **request),
        Retrieved(texts[-1].text, [PASSAGE]),
        tokens,
        **COMMON,
        template=TEMPLATE,
        support=SUPPORT,
    )
    return openings_of(job)


def openings_of(job: GenerateJob) -> list[list[int]]:
    if job.checking is None:
        return []
    assert job.checking.doubtful_below == SUPPORT.threshold
    return job.checking.openings


def test_a_follow_up_is_read_as_it_is_typed_or_rewritten(tokens: Tokens) -> None:
    before = "Is the pool open on Mondays? What does it cost?"
    joined = Retrieved(before, [PASSAGE], rewrite_ms=1.0, joined=True)
    assert turn(tokens, retrieved=joined, question="What does it cost?") == []
    rewritten = Retrieved(ASKED, [PASSAGE], rewrite_ms=1.0)
    assert turn(tokens, retrieved=rewritten, question="And on Mondays?") == openings(ASKED, REFUSAL, tokens)
    assert turn(tokens, retrieved=rewritten, question="And on Mondays? Answer with yes or no.") == []


def test_jobs_of_answers_from_passages_have_openings(tokens: Tokens) -> None:
    expected = openings(ASKED, REFUSAL, tokens)
    assert expected
    assert turn(tokens) == chat(tokens, ("user", ASKED)) == expected


def test_other_jobs_have_none(tokens: Tokens) -> None:
    revised = Segment(kind="answer", key="a0", text="Closed.", ids=tokens.encode_content("Closed.").ids)
    found = [
        turn(tokens, passages=()),
        turn(tokens, question="Can you make it shorter?", revised=revised),
        turn(tokens, question="When is the pool open?"),
        turn(tokens, whole=True),
        turn(tokens, template=replace(TEMPLATE, question="{question}\nAnswer with yes or no.")),
        chat(tokens, ("system", "Reply with yes or no."), ("user", ASKED)),
        chat(tokens, ("user", ASKED), json_schema={"type": "object"}),
    ]
    assert found == [[]] * len(found)


def test_an_earlier_answer_with_both_words_asks_for_neither(tokens: Tokens) -> None:
    assert chat(tokens, ("user", "Which answers are there?"), ("assistant", "Yes or no."), ("user", ASKED))
