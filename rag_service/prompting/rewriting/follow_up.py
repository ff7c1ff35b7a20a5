"""Decides whether a question needs the conversation before it to be understood. Pure, and cheap: it reads the words.

It errs towards yes: a question that stands alone costs one short rewrite, which leaves it as it is; one that does not
would retrieve the wrong passages. Knows words of English, German, Dutch, French and Spanish, and some of Chinese and
Japanese. In every language, a question with almost no content words counts as incomplete. Knows no model.
"""

from __future__ import annotations

import re

from rag_service.prompting.rewriting.pronouns import EXPLETIVE, points_back
from rag_service.prompting.rewriting.words import REFERENCES, UNSPACED, WORD, content_words, plain

FEWEST_WORDS = 2
"""Least content words of a complete question."""
LONGEST = 400
"""Characters from which on a question counts as complete."""
_UNSPACED_PER_WORD = 3

_OPENING = re.compile(
    r"(?:and|but|or|so|then|also|otherwise|really|yes|no|ok|okay|(?:what|how) about|what if|(?:what|who|where|how) else"
    r"|why not|how (?:so|come)|tell me more|go on|continue|explain|elaborate|another|more|again"
    r"|for (?:example|instance)|in short|in other words|compared (?:to|with)"
    r"|und|aber|oder|dann|sonst|warum nicht|was ist mit|wie (?:ist|sieht) es"
    r"|en|maar|of|en dan|hoe zit het|hoe zit dat|wat is er met|waarom niet|vertel|ga (?:verder|door)"
    r"|et|mais|ou|donc|alors|sinon|pourquoi pas|qu['’]en est-il"
    r"|y|e|pero|o|entonces|además|por qué no|qué (?:hay|tal))\b"
)
_PHRASE = re.compile(
    r"\bthe same\b|\b(?:this|that|which|other|another|the \w+) ones?\b|\bthe (?:first|second|third|last|others?)\W*$"
    r"|^that\b|\bthat\W*$|\b(?:about|of|in|for|to|with|like|than|before|after|is|was|does|did|do) that\b"
    r"|\bthere\W*$|\byou (?:said|mentioned|wrote|quoted)\b"
    r"|它|[他她]|[这那][个些里样]|那么|呢|[それこ][れのこ]|彼"
)
_BACK = re.compile(
    r"\b(?:first|second|third|both|either|former|earlier|previous|before|than|compared|difference|back to|together"
    r"|erste[nrs]?|zweite[nrs]?|beide[nrs]?|vorher|zuvor|als|vergleich|unterschied|zurück zu[mr]?|zusammen"
    r"|eerste|tweede|beide|allebei|eerder|vorige|dan|vergeleken|verschil|terug naar|samen"
    r"|premi(?:er|ère)|deuxième|deux|avant|différence|primer[oa]?|segund[oa]|ambos|ambas|antes|diferencia)\b"
    r"|第一|第二|两个|之前|相比"
)
_ANSWER = re.compile(
    r"\b(?:(?:your|this|that|last|previous) (?:last |previous )?(?:answer|reply|response)|you (?:said|wrote|found"
    r"|told|meant|answered|mentioned|arrived?)|(?:did|do) you (?:arrive|mean|know|get)|conversation|so far"
    r"|word for word|which of (?:the|these|those|them)|at the beginning|found out|summari[sz]e (?:all|our|this|that)"
    r"|(?:deine|ihre|diese|letzte)[nr]? antwort|(?:hast du|haben sie|du|sie) (?:gesagt|geschrieben|gemeint"
    r"|sagtest|sagten)"
    r"|gespräch|unterhaltung|bisher|am anfang|wortwörtlich|welche[rs]? (?:von|der) (?:den|beiden)"
    r"|(?:je|jouw|uw|dit|dat|laatste|vorige) antwoord|(?:je|jij|u) (?:zei|schreef|noemde|bedoelde)|gesprek|tot nu toe"
    r"|aan het begin|woord voor woord|welke van)\b"
)
"""Words of questions about what was said."""


def needs_rewriting(question: str) -> bool:
    """Whether a question refers to its conversation, or omits words that the conversation has."""
    if len(question) > LONGEST:
        return False
    text = EXPLETIVE.sub(" ", plain(question))
    if _OPENING.match(text) or _PHRASE.search(text) or not REFERENCES.isdisjoint(WORD.findall(text)):
        return True
    if points_back(question):
        return True
    words = content_words(text)
    unspaced = len(re.findall(f"[{UNSPACED}]", "".join(words)))
    return len(words) - unspaced + unspaced // _UNSPACED_PER_WORD < FEWEST_WORDS


def looks_back(question: str) -> bool:
    """Whether a question may mean more of its conversation than the last exchange: it compares, or goes back."""
    return bool(_BACK.search(plain(question)))


def speaks_of_answer(question: str) -> bool:
    """Whether a question is about what was said before: "Repeat your answer", "what you found", "so far"."""
    return bool(_ANSWER.search(plain(question)))


def names_nothing(question: str, language: str) -> bool:
    """Whether a question has neither a name nor a number, and so may be silently about what was asked before.

    "How long are spare parts available?" after a question about one machine is about that machine. A name is a word
    with a capital that does not begin the question. German writes all nouns so, and there only numbers count; a script
    without capitals does not tell.

    Args:
        language: of the question, an ISO 639-1 code.
    """
    if len(question) > LONGEST or not any(character.islower() for character in question):
        return False
    _, *others = WORD.findall(question)
    named = [] if language == "de" else [word for word in others if len(word) > 1 and word[0].isupper()]
    return not named and not any(character.isdigit() for character in question)
