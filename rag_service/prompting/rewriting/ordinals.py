"""Puts names in the place of "the first one", "the latter" and "the other one", without a model. Pure.

"Does the first one have a projector?" after questions about the Basalt and the Quartz room is about Basalt. Small
models take the last subject, or leave the words as they are. Names are put in where the questions before have two in
all, so that first and second say which, and the other one is that which the last question does not name. Knows words
of English, German and Dutch; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_service.prompting.rewriting.beginning import ARTICLES, ASKS, CONTRACTED
from rag_service.prompting.rewriting.replacement import WORD, names

_WHICH = {
    "en": r"(?P<led>the) (?:(?P<first>first|(?P<former>former))|second|(?P<latter>latter)|(?P<other>other))",
    "de": r"(?P<led>der|die|das|den|dem|im|am|vom|beim) (?:(?P<first>erste[nrs]?|(?P<former>erstere[nrs]?))"
    r"|zweite[nrs]?|(?P<latter>letztere[nrs]?)|(?P<other>andere[nrms]?))",
    "nl": r"(?P<led>de|het) (?:(?P<first>eerste|(?P<former>eerstgenoemde))|tweede|(?P<latter>laatstgenoemde)"
    r"|(?P<other>andere))",
}
_FORMS = {
    language: re.compile(rf"\b{which}\b(?P<thing> [^\W_]+)?", re.IGNORECASE) for language, which in _WHICH.items()
}


def resolved(question: str, past: Sequence[str], language: str) -> str | None:
    """The question with names in place of all such words; None if there are none, or it is not clear what they mean.

    Args:
        past: the questions before it as they were understood, oldest first.
        language: of the question, an ISO 639-1 code.
    """
    form = _FORMS.get(language)
    found = list(form.finditer(question)) if form else []
    subjects: dict[str, tuple[str, list[str]]] = {}
    for before in past if found else ():
        words = WORD.findall(before)
        for run in names(words, language):
            name = " ".join(words[run.start : run.end])
            subjects.setdefault(name.casefold(), (name, words))
    if not found or len(subjects) != 2:
        return None
    for match in reversed(found):
        known = list(subjects.values())
        if match["other"]:
            known = [subject for subject in known if subject[0].casefold() not in past[-1].casefold()]
            if len(known) != 1:
                return None
        name, words = known[0 if match["first"] or match["other"] else 1]
        meant = _meant(match, name, words)
        if meant is None:
            return None
        question = question[: match.start()] + meant + question[match.end() :]
    return question


def _meant(match: re.Match[str], name: str, words: Sequence[str]) -> str | None:
    """A name, with the noun behind the ordinal number if its question has it; None for "the first day"."""
    led = CONTRACTED.get(match["led"].casefold(), "")
    thing = (match["thing"] or "").strip()
    own, known = thing.casefold(), [word.casefold() for word in words]
    if not own or own == "one":
        return f"{led} {name}".strip()
    if own in ARTICLES | ASKS:
        return f"{led} {name} {thing}".strip()
    if own in name.casefold().split():
        return f"{led} {name}".strip()
    if own not in known:
        return f"{led} {name} {thing}".strip() if match["former"] or match["latter"] else None
    before = f"{own} {name.casefold()}" in " ".join(known)
    article = "" if led or before else match["led"]
    return " ".join(word for word in (led, article, *((thing, name) if before else (name, thing))) if word)
