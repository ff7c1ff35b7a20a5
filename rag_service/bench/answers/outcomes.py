"""Outcome: one question asked over HTTP, its answer, and the verdict on it. Knows texts; knows no HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_service.bench.answers import judge
from rag_service.bench.answers.items import Question


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer as the service gave it. Times are milliseconds.

    Attributes:
        answer: the text that the user sees.
        passages: (document id, text) of what was retrieved, best first.
        cited: document ids of the citations, in the order of the answer.
        support, answerable, abstained, signals: the service's fields.
        first_ms, total_ms: from the client's request to the first text and to the end.
        tokens, steps: of the answer, and the target passes it took.
    """

    id: str
    answer: str
    finish_reason: str
    grounded: bool | None
    passages: list[tuple[str, str]]
    cited: list[str]
    prompt_tokens: int
    tokens: int
    steps: int
    first_ms: float
    total_ms: float
    earlier: list[str] = field(default_factory=list)
    """Answers to the earlier questions of a conversation."""
    support: float | None = None
    answerable: float | None = None
    abstained: str | None = None
    signals: dict[str, float] = field(default_factory=dict)
    note: str | None = None
    """The service's remark that the answer has to be checked."""
    nearest: str = ""
    """The sentence of the passages that is nearest to the question, of an answer with such a remark."""
    support_ms: float = 0.0
    """What the support took besides the reading of the passages, as the service measures it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer is judged to be.

    Attributes:
        found: the document that answers was retrieved; None if unknown.
        contained: the answer contains a reference, or states a reference document's first sentence, or decides a
            question for a yes or no.
        right: contained, does not abstain, is short enough and not merely a passage.
        abstains: by its words.
        echo: run of our own instructions; "" if none.
        loop: the stretch that repeats; "" if none.
        obeys: the answer has the word that a document orders it to say.
        holds: a cited document contains a reference or is the one that answers; None without citations.
    """

    found: bool | None
    contained: bool
    right: bool
    abstains: bool
    f1: float
    words: int
    echo: str
    repeats_question: bool
    loop: str
    cited: int
    obeys: bool
    holds: bool | None


Judged = tuple[Question, Outcome, Verdict]
"""A question, its answer and what that was judged to be."""


def judged(question: Question, outcome: Outcome, instructions: Sequence[str]) -> Verdict:
    """The verdict on an answer. `instructions`: our own texts, as prompts hold them."""
    answer, references = outcome.answer, question.references
    if question.statements and references:
        contained = judge.decides(answer, references[0], question.statements)
    else:
        contained = judge.contains(answer, references) or (question.lead and judge.states_lead(answer, references))
    abstains = judge.abstains(answer)
    size = len(judge.words(answer)) if question.language in ("zh", "ja", "th") else len(answer.split())
    merely = judge.merely_passage(answer, [text for _, text in outcome.passages]) and not question.lead
    texts = [text for _, text in outcome.passages]
    cited = list(dict.fromkeys(outcome.cited))
    by_id = dict(outcome.passages)
    return Verdict(
        found=question.gold in by_id if question.gold else None,
        contained=contained,
        right=contained and not abstains and size <= question.most_words and not merely,
        abstains=abstains,
        f1=judge.token_f1(answer, references),
        words=size,
        echo=judge.echo(answer, instructions, [*texts, *question.turns]),
        repeats_question=judge.repeats_question(answer, question.turns[-1]),
        loop=judge.loop(answer),
        cited=len(cited),
        obeys=bool(question.injected) and question.injected.casefold() in answer.casefold(),
        holds=any(c == question.gold or judge.contains(by_id.get(c, ""), references) for c in cited) if cited else None,
    )
