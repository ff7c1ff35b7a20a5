"""Whether an answer is right, and what is wrong with it. Pure functions of texts; knows no service and no model.

*Right* after SQuAD's evaluation: the normalised reference is contained in the normalised answer. Besides, the answer
must not abstain, must be short, and must not be a whole passage.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

ECHO_RUN = 6
"""Words of an instruction in a row that make an echo."""
LOOP_TIMES = 3
"""Times in a row that a stretch of at least `LOOP_WORDS` words must occur to be a loop."""
LOOP_WORDS = 3
MOSTLY = 0.9
"""Share of a passage's words from which on an answer is merely the passage."""
LEAD_RECALL = 0.5
"""Least share of the words of a document's first sentence, where the reference is a document."""

_YES, _NO = frozenset(("yes", "ja", "sí", "si")), frozenset(("no", "nein", "nee"))
_ARTICLES = re.compile(r"\b(?:a|an|the|de|het|een|der|die|das|el|la|los|las|ein|eine)\b")
_NO_SPACES = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_ABSTAINS = re.compile(
    r"documents? (?:do|does) not (?:say|answer|contain|mention|state|provide|specify|give)"
    r"|(?:passages?|texts?|context|information|source)s?(?: provided)? (?:do|does) not (?:say|answer|contain|mention|"
    r"state|provide|specify|give|include|directly)"
    r"|(?:is|are|was) not (?:mentioned|stated|specified|provided|given|found|answered)"
    r"|no (?:information|mention|answer)\b|cannot (?:be (?:answered|determined)|answer)|(?:do|does) not know"
    r"|documenten (?:zeggen|vermelden|geven|bevatten|beantwoorden) (?:dit |dat |het )?(?:niet|geen)"
    r"|niet (?:vermeld|genoemd|te vinden)|geen (?:informatie|antwoord)"
    r"|dokumente (?:sagen|enthalten|nennen|beantworten|geben) (?:dies |das |es )?(?:nicht|keine)"
    r"|nicht (?:erwähnt|angegeben|genannt|beantwortet)|keine (?:information|angabe|antwort)"
    r"|documentos no (?:lo )?(?:dicen|contienen|mencionan|responden|indican)"
    r"|no se (?:menciona|indica|especifica)|no hay información"
    r"|文(?:档|件|章)(?:中|里)?(?:没有|未|并未|沒有)|没有(?:提到|提及|说明|相关|给出|回答)|未(?:提到|提及|说明|给出)|无法回答",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """The words of a text without case and punctuation; in scripts without spaces, every character is a word."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in _NO_SPACES.sub(r" \1 ", text))
    return text.split()


def normalised(text: str) -> str:
    """As SQuAD normalises: no case, punctuation or articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", " ".join(words(text))).split())


def contains(answer: str, references: Iterable[str]) -> bool:
    """Whether the answer contains a reference, both normalised."""
    text = f" {normalised(answer)} "
    return any(f" {reference} " in text for reference in map(normalised, references) if reference)


def states(text: str, groups: Iterable[Sequence[str]]) -> bool:
    """Whether a text contains all phrases of a group, all normalised."""
    return any(all(contains(text, [phrase]) for phrase in group) for group in groups)


def says_yes(answer: str) -> bool | None:
    """Whether an answer begins with a yes, or with a no; None for neither."""
    first = (words(answer) or [""])[0]
    return True if first in _YES else False if first in _NO else None


def decides(answer: str, reference: str, groups: Iterable[Sequence[str]]) -> bool:
    """Whether an answer to a question for a yes or no begins with the right one, or with neither and states a group."""
    said = says_yes(answer)
    return states(answer, groups) if said is None else said == says_yes(reference)


def token_f1(answer: str, references: Iterable[str]) -> float:
    """SQuAD's F1 of words, against the best reference."""
    best, given = 0.0, Counter(normalised(answer).split())
    for reference in references:
        wanted = Counter(normalised(reference).split())
        if shared := (given & wanted).total():
            best = max(best, 2 * shared / (given.total() + wanted.total()))
    return best


def states_lead(answer: str, references: Iterable[str]) -> bool:
    """Whether the answer has at least half of the words of a reference document's first sentence."""
    given = Counter(words(answer))
    for reference in references:
        lead = Counter(words(_SENTENCE_END.split(reference.strip(), 1)[0]))
        if lead and (given & lead).total() >= LEAD_RECALL * lead.total():
            return True
    return False


def abstains(answer: str) -> bool:
    """Whether a text says, in one of the usual phrases of five languages, that the documents do not answer."""
    return not answer.strip() or bool(_ABSTAINS.search(answer))


def merely_passage(answer: str, passages: Iterable[str]) -> bool:
    """Whether the answer holds a whole passage of 25 words or more, or nearly all of it."""
    given = Counter(words(answer))
    for passage in passages:
        wanted = Counter(words(passage))
        if wanted.total() >= 25 and (given & wanted).total() >= MOSTLY * wanted.total():
            return True
    return False


def echo(answer: str, instructions: Iterable[str], passages: Iterable[str]) -> str:
    """The first run of `ECHO_RUN` words of our own instructions that is in no passage; "" if there is none."""
    own = {run for text in instructions for run in _runs(words(text), ECHO_RUN)}
    own -= {run for text in passages for run in _runs(words(text), ECHO_RUN)}
    return next((" ".join(run) for run in _runs(words(answer), ECHO_RUN) if run in own), "")


def repeats_question(answer: str, question: str) -> bool:
    """Whether the whole question (4 words or more) is in the answer, or nearly: 9 of 10 of its words, in order."""
    wanted, given = words(question), words(answer)
    if len(wanted) < 4 or len(given) < len(wanted):
        return False
    for start in range(len(given) - len(wanted) + 1):
        same = sum(a == b for a, b in zip(given[start : start + len(wanted)], wanted, strict=True))
        if same >= 0.9 * len(wanted):
            return True
    return False


def loop(answer: str) -> str:
    """The first stretch of `LOOP_WORDS` words or more that occurs `LOOP_TIMES` times in a row; "" if there is none."""
    given = words(answer)
    for size in range(LOOP_WORDS, len(given) // LOOP_TIMES + 1):
        same = 0
        for position in range(size, len(given)):
            same = same + 1 if given[position] == given[position - size] else 0
            if same >= size * (LOOP_TIMES - 1):
                return " ".join(given[position - size + 1 : position + 1])
    return ""


def _runs(tokens: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return (tuple(tokens[n : n + size]) for n in range(len(tokens) - size + 1))
