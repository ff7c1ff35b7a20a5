"""Decides whether a question needs the conversation before it to be understood. Pure, and cheap: it reads the words.

It errs towards yes: a question that stands alone costs one short rewrite, which leaves it as it is; one that does not
would retrieve the wrong passages. Knows words of English, German, Dutch, French and Spanish, and some of Chinese and
Japanese. In every language, a question with almost no content words counts as incomplete. Knows no model.
"""

from __future__ import annotations

import re

FEWEST_WORDS = 2
"""Least content words of a complete question."""
LONGEST = 400
"""Characters from which on a question counts as complete."""

_PRONOUNS = """
    he him his she her hers they them their theirs it its this these those
    er sie ihn ihm ihnen ihr ihre ihren ihrem ihrer ihres seine seinen seinem seiner seines diese dieser diesen diesem
    dieses dessen deren dort davon damit dafür dazu darüber darin daran darauf
    hij hem zij ze haar hun hen deze daar daarvan daarmee daarvoor daarin ervan ermee ervoor erin eraan erop erover
    il ils elle elles eux lui leur leurs celui celle ceux celles cela ça ceci
    él ella ellos ellas eso esto ese esa esos esas este esta estos estas allí ahí
"""
_POINTERS = "former latter instead previous earlier above"
_EMPTY = """
    a about actually again all also am an and any anything are as at be been being but by can could did do does doing
    done for from get give go got had has have here how i if in into is itself just know many me more much my no not now
    of ok okay on one ones only or other our out over please really say see so some something still such tell than thank
    thanks that the then there thing things to too up very was we were what when where which while who whom whose why
    will with would yes you your
    aber alle als auch auf aus bei bitte da das dass dem den denn der des dies doch du ein eine einem einen einer
    eines es für gibt ich im ist ja kann mehr nach nein nicht noch nur oder sein sich sind und uns unter viel viele vom
    von vor wann waren warum wegen welche welcher welches wem wen wenn wer wie wieso wird wo woher wohin zu zum zur
    aan bij dat de dit een geen heeft het hebben hoe hoeveel ik je jij maar mijn moet moeten naar niet nog om onze ook
    op te uit van veel voor waar waarom wanneer wat welk welke wij worden wordt
    alors au aussi avec ce ces cet cette combien comment dans de donc du en est et je la le les là ma mais mes moi mon
    ne non nous ou où oui par parce pas plus pour pourquoi quand que quel quelle quelles quels qui quoi sa sans se ses
    si son sont sur ta tes toi ton tu un une vous y à été être
    al como con cuando cuál cuáles cuándo cuánto cuántos cómo del donde dónde el era eran es fue hay las lo los más ni o
    para pero porque qué quien quién quiénes sin su sus sí también unas unos ya
"""
PRONOUNS = frozenset(_PRONOUNS.split())
"""Words that a name can replace."""
REFERENCES = PRONOUNS | frozenset(_POINTERS.split())
"""Words that refer to earlier text."""
EMPTY = REFERENCES | frozenset(_EMPTY.split())
"""Words that no passage is about, but for those with a meaning in another language (`die`, `war`)."""

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
EXPLETIVE = re.compile(r"\b(?:is|was) it (?:possible|necessary|allowed|ok|okay|true|mandatory) ", re.IGNORECASE)
"""Where `it` stands for nothing."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_UNSPACED_PER_WORD = 3


def content_words(text: str) -> list[str]:
    """The words that a passage could be about, in lower case. In scripts without spaces, each character is a word."""
    return [word for word in _WORD.findall(text.casefold()) if word not in EMPTY]


def pronouns(text: str) -> int:
    """The number of pronouns in a text."""
    return sum(word in PRONOUNS for word in _WORD.findall(EXPLETIVE.sub(" ", _plain(text))))


def needs_rewriting(question: str) -> bool:
    """Whether a question refers to its conversation, or omits words that the conversation has."""
    if len(question) > LONGEST:
        return False
    text = EXPLETIVE.sub(" ", _plain(question))
    if _OPENING.match(text) or _PHRASE.search(text) or not REFERENCES.isdisjoint(_WORD.findall(text)):
        return True
    words = content_words(text)
    unspaced = len(re.findall(f"[{_UNSPACED}]", "".join(words)))
    return len(words) - unspaced + unspaced // _UNSPACED_PER_WORD < FEWEST_WORDS


def looks_back(question: str) -> bool:
    """Whether a question may mean more of its conversation than the last exchange: it compares, or goes back."""
    return bool(_BACK.search(_plain(question)))


def speaks_of_answer(question: str) -> bool:
    """Whether a question is about what was said before: "Repeat your answer", "what you found", "so far"."""
    return bool(_ANSWER.search(_plain(question)))


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
    _, *others = _WORD.findall(question)
    named = [] if language == "de" else [word for word in others if len(word) > 1 and word[0].isupper()]
    return not named and not any(character.isdigit() for character in question)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" \"'“”‘’¿¡(")
