"""First words that a second answer to a question for a yes or no may not have. Pure.

A small model says yes to nearly every such question, whatever its passages say, and goes on in the words of the
question. Kept from that, it often says that the documents do not say, although they do. Kept from that, too, it states
what they say, or something else. `workers/worker/second_answer.py` says when a second answer takes the first one's
place.

Knows words of English, German and Dutch, and token ids; knows no model and no passages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from rag_service.prompting.verbs import QUESTION_WORDS, VERBS
from retriever.languages import language_of
from workers.tokens.tokenizer import Tokens

REFUSAL_WORDS = 2
"""How many words of a refusal tell that it is one: "The documents"."""
_ANSWERS = {"en": ("Yes", "No"), "de": ("Ja", "Nein"), "nl": ("Ja", "Nee")}
_SUBJECTS_IN_LINES = {
    "de": """
        der die das dem den ein eine einen mein meine dein deine sein seine ihr ihre unser unsere euer eure
        ich du er sie es wir man jeder jede jemand dieser diese dieses
    """,
    "nl": "de het een mijn je jouw uw zijn haar ons onze jullie ik u hij zij ze we wij men er iemand deze dit die dat",
}
_SUBJECTS = {language: frozenset(words.split()) for language, words in _SUBJECTS_IN_LINES.items()}
_OTHER_FIRST_IN_LINES = {
    "de": "seit mit mitten nicht zuletzt jetzt außen oben unten hinten wen",
    "nl": "met wat niet tot sinds dat dit het wanneer",
}
"""Words that end like verbs and are none, and may stand before a subject."""
_OTHER_FIRST = {language: frozenset(words.split()) for language, words in _OTHER_FIRST_IN_LINES.items()}
_BEFORE_IN_LINE = "and but so or ok okay hi hello und aber oder also hallo en maar of dus hoi"
_BEFORE = frozenset(_BEFORE_IN_LINE.split())
"""Words before a question."""
_VERB_ENDS = ("t", "en")
_SENTENCE = re.compile(r"[^.!?:;]+[.!?:;]*")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SAID_SO = re.compile(r"\b(?:yes|ja)\b[^.!?]{0,60}?\b(?:no|nein|nee)\b|\by\s*/\s*n\b", re.IGNORECASE)
"""Somebody asks for one of the two."""
_TELLS = re.compile(
    r"\b(?:you|sie|ihr|du|je|jullie|u)\b\W+(?:\w+\W+){0,4}?"
    r"(?:tell|explain|describe|list|summari[sz]e|name|give|erklär\w*|beschreib\w*|nenn\w*|aufzähl\w*|zusammenfass\w*|"
    r"sagen|uitleg\w*|beschrijv\w*|noem\w*|opnoem\w*|samenvat\w*|zeggen|vertel\w*)\b",
    re.IGNORECASE,
)
"""Asks for more than yes or no: "Can you tell me when …"."""


def openings(question: str, refusal: str, tokens: Tokens, told: Iterable[str] = ()) -> list[list[int]]:
    """What a second answer must not begin with: runs of token ids.

    Empty for questions that cannot be answered by yes or no, and where somebody asks for one of the two.

    Args:
        question: as the model reads it.
        refusal: how the model says that the passages do not answer.
        told: what the model is told besides by a client or an operator.
    """
    language = language_of(question)
    verb = verb_of(question, language)
    if verb is None or any(_SAID_SO.search(text) for text in (question, *told)):
        return []
    words = *_ANSWERS[language], verb.capitalize()
    texts = *words, *map(str.lower, words), " ".join(refusal.split()[:REFUSAL_WORDS])
    runs = {tuple(tokens.encode_content(space + text).ids) for text in texts for space in ("", " ")}
    return sorted(map(list, runs))


def verb_of(question: str, language: str) -> str | None:
    """The verb that a sentence of it begins with, as those do that yes or no answers; None for other questions.

    Args:
        language: an ISO 639 code; in others than those of this file no question is such a one.
    """
    if language not in _ANSWERS:
        return None
    sentences = _SENTENCE.findall(question)
    verbs = (_verb_of_sentence(sentence, language) for sentence in sentences)
    last = (_verb_of_clause(sentence, language) for sentence in sentences)
    return next(filter(None, itertools.chain(verbs, last)), None)


def _verb_of_clause(sentence: str, language: str) -> str | None:
    """Of the last part of a question that asks for nothing before: "My son is twelve, may he sail alone?" """
    before, comma, clause = sentence.rpartition(",")
    asks_for = _TELLS.search(sentence) or not QUESTION_WORDS.isdisjoint(_WORD.findall(before.casefold()))
    asks = comma and sentence.rstrip().endswith("?") and not asks_for
    words = _words(clause)
    return words[0] if asks and len(words) > 1 and words[0].casefold() in VERBS[language] else None


def _words(text: str) -> list[str]:
    """Without those that only lead to a question."""
    words: list[str] = _WORD.findall(text.replace("’", "'"))
    return list(itertools.dropwhile(lambda word: word.casefold() in _BEFORE, words))


def _verb_of_sentence(sentence: str, language: str) -> str | None:
    words = _words(sentence)
    if len(words) < 2 or words[1][0].isdigit() or _TELLS.search(sentence):
        return None
    first, second = words[0].casefold(), words[1]
    if first in VERBS[language]:
        return words[0]
    if language == "en" or not sentence.rstrip().endswith("?"):
        return None
    names = second.casefold() in _SUBJECTS[language] or second[0].isupper()
    is_verb = names and first.endswith(_VERB_ENDS) and first not in _OTHER_FIRST[language]
    return words[0] if is_verb else None
