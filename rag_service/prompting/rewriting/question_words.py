"""Follow-ups of question words alone: "Why?", "Wie lange?", "Sinds wanneer?" Pure.

Their rewrite begins with them, and goes on as the question before did behind its own question words: "Wie lange?" after
"Warum werden Kaffeemaschinen geprüft?" begins "Wie lange werden Kaffeemaschinen". Knows words; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_service.prompting.verbs import VERBS

SHOWN = 2
"""Words of the question before that follow the question words."""
MOST_WORDS = 4

_ASKING = {
    "en": """
        what who whom when where why how which much many long often far old big high soon since until till by for from
        with at to about exactly
        """,
    "de": """
        was wer wen wem wann wo wohin woher warum wieso weshalb wie wieviel viel viele lange lang oft weit alt groß
        hoch seit bis ab von mit bei für zu wozu womit wofür genau
        """,
    "nl": """
        wat wie wanneer waar waarom waarmee waarvoor hoe hoeveel hoelang veel lang vaak ver oud groot hoog sinds tot
        vanaf van met bij voor naar precies
        """,
    "es": """
        qué quién quiénes cuándo dónde adónde cómo cuánto cuánta cuántos cuántas cuál tiempo desde hasta por para de
        con a en
        """,
}
_ASKING_WORDS = {language: frozenset(words.split()) for language, words in _ASKING.items()}
_WORD = re.compile(r"\w+")


def beginning_with(question: str, before: str) -> str:
    """How the rewrite of question words begins; "" if it has other words, or the one before none."""
    own = _WORD.findall(question)
    words = before.lstrip("¿¡ ").split()
    if not 0 < len(own) <= MOST_WORDS:
        return ""
    for language, asking in _ASKING_WORDS.items():
        if asking >= {word.casefold() for word in own} and (verb := _verb(words, language)) is not None:
            first = words[verb][:1].lower() + words[verb][1:]
            rest = [word.rstrip("?!.") for word in words[verb + 1 : verb + SHOWN]]
            return " ".join([*own, first, *rest])
    return ""


def _verb(words: Sequence[str], language: str) -> int | None:
    """Where the verb of a question stands that has only question words before it."""
    for n, word in enumerate(words[: MOST_WORDS + 1]):
        if word.casefold() in VERBS[language]:
            return n
        if word.casefold() not in _ASKING_WORDS[language]:
            return None
    return None
