"""How the rewrite of a follow-up begins, so that a small model completes it instead of repeating the follow-up. Pure.

"And in Lisbon?" asks what the question before it asked, so its rewrite begins as that question does. "How long does it
take?" keeps its own words up to the pronoun, and the model may not write the pronoun again. "How long is the notice?"
keeps all of them, and the model says whether it goes on. Of ten follow-ups that leave words out, a model of 1.5B
rewrote three by itself and nine from such beginnings (docs/log.md).

Knows words of English, German, Dutch, French and Spanish; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_service.prompting.rewriting.follow_up import looks_back
from rag_service.prompting.rewriting.pronouns import means_itself, pointing, pronouns
from rag_service.prompting.rewriting.question_words import beginning_with
from rag_service.prompting.rewriting.words import REFERENCES, content_words

OPENING_WORDS = 2
"""Words of the question before that a rewrite begins with."""
FEWEST_WORDS = 4
"""Of that question; a shorter one hardly says how it goes on."""
FEWEST_WITH_VERB = 3
"""Of one that begins with a verb: "May children come?"."""
MOST_WORDS = 8
"""Of a follow-up that leaves out what it asks; a longer one says it."""

INSTEAD = re.compile(
    r"[¿¡\s]*(?:what about|how about|was ist mit|wie (?:ist|sieht) (?:es|das)(?: (?:mit|bei|in))?|wat is er met"
    r"|hoe (?:zit|is) (?:het|dat)(?: (?:met|bij|in))?|qu['’]en est-il|qué (?:hay|tal)|and|but|or|und|aber|oder|en|maar"
    r"|et|mais|y|e|pero|o)(?=\s)",
    re.IGNORECASE,
)
"""What a follow-up begins with that puts something else in the place of what was asked about."""
_CONDITION = re.compile(r"(?:if|wenn|falls|als|indien|si)\s", re.IGNORECASE)
"""What another condition begins with."""
_PLACE = re.compile(
    r"(?P<at>in|on|at|for|of|from|with|without|during|after|before|bei|beim|im|am|für|von|vom|mit|ohne|während|nach|vor"
    r"|op|bij|voor|van|met"
    r"|zonder|tijdens|na|dans|pour|chez|avec|sans|pendant|au|para|con|sin|durante)\s",
    re.IGNORECASE,
)
"""What another place, time or person begins with."""
CONTRACTED = {"im": "in", "am": "an", "vom": "von", "beim": "bei"}
"""Prepositions with an article in them, and without it."""
_ARTICLES_IN_LINES = """
    the a an der die das den dem ein eine einen einem einer de het een le la les el los las
    """
ARTICLES = frozenset(_ARTICLES_IN_LINES.split())
_ONE_IN_LINES = "a an ein eine einen einem einer een un une una"
_ONE = frozenset(_ONE_IN_LINES.split())
"""Articles of things that are one of many: a canoe."""
_DETERMINING = frozenset(("the", "a", "an", "my", "our", "your", "this", "these", "any"))
"""English words after a verb, and hardly ever after a noun."""
_OF = frozenset(("of", "von", "van", "de"))
_OTHERS_IN_LINE = "one ones other others same andere anderen andre anderer anderes autre autres otro otra otros otras"
_NO_THINGS = REFERENCES.union(_OTHERS_IN_LINE.split())
"""Words that name nothing themselves."""
_BESIDES_IN_LINES = """
    to by into before about under over behind until
    vor aus zu auf über unter hinter zwischen durch gegen um bis
    naar uit aan onder achter tussen door tegen om
    vers sous sur avant après entre par hacia sobre bajo desde hasta
    """
_BESIDES = _OF.union(_BESIDES_IN_LINES.split())
"""Prepositions besides those of places."""
_FOR = frozenset(("for", "für", "voor", "pour", "para"))
"""They name what a question with a verb in front is about: "for cats" does not go on "May dogs come"."""
_WHICH_IN_LINES = """
    which welcher welche welches welchen welchem wieviel hoeveel welk welke quel quelle quels quelles cuánto cuánta
    cuántos cuántas
    """
_WHICH = frozenset(_WHICH_IN_LINES.split())
"""Words before the thing that the next question may put something else in place of."""
_VERBS_IN_LINES = """
    is are was were do does did can could may must has have had will would should
    ist sind war waren hat haben kann können darf dürfen muss müssen wird werden gibt gilt soll
    zijn heeft hebben kan kunnen mag mogen moet moeten wordt worden geldt
    est sont peut peuvent doit doivent es son puede pueden debe
    """
_VERBS = frozenset(_VERBS_IN_LINES.split())
_WHEN = frozenset(("when", "where", "wann", "wo", "wanneer", "waar"))
_ASKS_IN_LINES = """
    what who whom whose which when where why how if
    wer wen wem wessen was welche welcher welches welchen welchem wann wo wohin woher warum wieso weshalb wie wieviel
    womit wofür wodurch ob wenn
    wat wie welk welke wanneer waar waarom waarmee hoe hoeveel hoelang
    qui que quoi quel quelle quels quelles quand où pourquoi comment combien
    quién quiénes qué cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas
    tell show explain list give please thanks thank sag sagen zeig zeige erkläre nenne bitte danke geef noem vertel leg
    bedankt dank dis explique montre merci dime explica muestra gracias
    """
_SIDES_IN_LINES = """
    before after during vor nach während voor na tijdens avant après pendant antes después durante
    with without mit ohne met zonder avec sans con sin
"""
_SIDES = [frozenset(line.split()) for line in _SIDES_IN_LINES.strip().splitlines()]
"""Prepositions that take each other's place."""
ASKS = _VERBS.union(_ASKS_IN_LINES.split())
"""Words with which a follow-up asks something itself, or asks for something else than an answer."""
_NOTHING = re.compile(
    r"\bit\b.* (?:to|if|that|when|for \w+ to) |\bhet\b.* (?:om|te|dat|als) |-(?:il|elle)\b", re.IGNORECASE
)
"""Where a pronoun stands for what follows, or for nothing, and inverted French ones, which hang on the verb."""
_WORD = re.compile(r"\w+")
_END = " ?!.…"


class Beginning(NamedTuple):
    """How a rewrite begins.

    Attributes:
        text: its first words; "" for none.
        without: words that it must not contain.
        goes_on: whether it should rather go on than end; what the question is about may still have to be said.
    """

    text: str = ""
    without: tuple[str, ...] = ()
    goes_on: bool = False


def going_on(question: str) -> Beginning:
    """That of a question which lacks no word, but may silently be about what was asked before."""
    return Beginning(question.strip().rstrip(_END), goes_on=True)


def beginning(question: str, past: Sequence[str]) -> Beginning:
    """How the rewrite of `question` begins.

    Args:
        question: as it was asked.
        past: the questions before it as they were understood, oldest first.
    """
    if _NOTHING.search(question):
        return Beginning()
    if (
        text := _under_condition(question, past)
        or _as_before(question, past)
        or beginning_with(question, past[-1] if past else "")
    ):
        return Beginning(text)
    found = pointing(question)
    if not found or means_itself(before := question[: found[0].start("it")], found[0]["it"]):
        return Beginning()
    return Beginning(before.strip(), tuple(dict.fromkeys(match["it"] for match in found)))


def own_words(question: str) -> str:
    """The question without what its rewrite replaces: an opening such as "and for", and pronouns."""
    instead = INSTEAD.match(question)
    text = question[instead.end() :] if instead else question
    for match in reversed(pointing(text)):
        text = text[: match.start("it")] + text[match.end("it") :]
    return text


def with_place(question: str, past: Sequence[str]) -> str | None:
    """The question before with another place, time or person at its end, which is all that the follow-up names.

    Of use where the model repeats the question before: "Und bei Krankheit?" None for other follow-ups, and if it is not
    clear which words of the question before are to go.
    """
    rest, place, _ = _instead(question)
    whole = _last_whole(past)
    if not place or not whole or pronouns(rest) or not content_words(rest):
        return None
    words, own = whole.split(), rest.rstrip(_END).split()
    same = _same_place(words, own)
    if own[0].casefold() in _FOR and words[0].lstrip("¿").casefold() in _VERBS:
        return None
    if " ".join(own).casefold() in whole.casefold() or (not same and _bare(own[0]) in map(_bare, words)):
        return None
    return f"{' '.join(words[: same or len(words)]).rstrip(_END)} {' '.join(own)}?"


def other_side(question: str, past: Sequence[str]) -> str | None:
    """The question before with the other side of something that it names, which is all that the follow-up names: "And
    after the break?" behind "Who helps during the break?". None for other follow-ups."""
    rest, place, _ = _instead(question)
    own, words = rest.rstrip(_END).split(), _last_whole(past).rstrip(_END).split()
    own[:1] = [word.lower() for word in own[:1]]
    said = [word.casefold() for word in own[1:]] if place else []
    for n, word in enumerate(words if said else ()):
        behind = [one.casefold() for one in words[n + 1 : n + len(own)]]
        if n and word != own[0] and behind == said and any({word, own[0]} <= sides for sides in _SIDES):
            return f"{' '.join([*words[:n], *own, *words[n + len(own) :]])}?"
    return None


def _instead(question: str) -> tuple[str, bool, list[str]]:
    """What a follow-up names in the place of something else, whether a preposition begins it, and its words in lower
    case; no text and no words if it asks by itself."""
    instead = INSTEAD.match(question)
    rest = question[instead.end() if instead else 0 :].lstrip()
    place = bool(_PLACE.match(rest))
    own = _WORD.findall(rest.casefold())
    if not (instead or place) or not 0 < len(own) <= MOST_WORDS or not ASKS.isdisjoint(own):
        return "", False, []
    return rest, place, own


def _under_condition(question: str, past: Sequence[str]) -> str:
    """The question before with another condition at its end: "And if my cat is ill?"

    "" for other follow-ups, and where a word of the condition may mean what was asked before.
    """
    instead = INSTEAD.match(question)
    rest = question[instead.end() :].strip() if instead else ""
    words = _last_whole(past).rstrip(_END).split()
    if not _CONDITION.match(rest) or not words or pronouns(rest) or len(rest.split()) > MOST_WORDS:
        return ""
    before = next((n for n, word in enumerate(words) if n and _CONDITION.match(f"{word} ")), len(words))
    return " ".join([*words[:before], rest.rstrip(_END)])


def _last_whole(past: Sequence[str]) -> str:
    return next((text for text in reversed(past) if _is_whole(text)), "")


def _as_before(question: str, past: Sequence[str]) -> str:
    rest, place, own = _instead(question)
    if not own:
        return ""
    words = _last_whole(past).split()
    if place and (same := _same_place(words, rest.split())):
        return " ".join([*words[:same], rest.rstrip(_END)])
    if own[0] in _ONE and not place and (other := _other_one(words)):
        return " ".join([*words[:other], rest.rstrip(_END)])
    if not place and not looks_back(rest) and (other := _other_thing(words, own)):
        return " ".join([*words[:other], rest.rstrip(_END)])
    if not place and len(own) > 2 and own[1] in _DETERMINING and words and words[0].casefold() in _VERBS:
        subject = 3 if words[1].casefold() in ARTICLES else 2  # "and use the lathe?" after "May children come?"
        return " ".join([*words[:subject], rest.rstrip(_END)])
    which = not place and words and words[0].casefold() in _WHICH
    return " ".join(words[: 1 if which else OPENING_WORDS])


def _same_place(words: Sequence[str], place: Sequence[str]) -> int:
    """Where a question names what the next one names otherwise: in Ghent, in Lille. 0 for nowhere."""
    wanted = _shape(place)
    return max((n for n in range(len(words)) if _shape(words[n:]) == wanted), default=0)


def _other_one(words: Sequence[str]) -> int:
    """Where a question names one of many things, which another one replaces: "How much is a canoe for a day?" 0 for
    nowhere, or if it names several of which none stands alone without a preposition."""
    found = [n for n, word in enumerate(words) if n and word.casefold() in _ONE]
    alone = [n for n in found if not _PLACE.match(f"{words[n - 1]} ") or words[n - 1].casefold() in _OF]
    chosen = found if len(found) == 1 else alone
    return chosen[0] if len(chosen) == 1 else 0


def _other_thing(words: Sequence[str], own: Sequence[str]) -> int:
    """Where a question names the one thing that it is about, which another one replaces: "When is the cafe open?" 0 for
    nowhere, or if it may be about something else: "What is the price of the cafe?"

    Args:
        own: the words for the other thing.
    """
    plain = [word.casefold() for word in words]
    found = [n for n, word in enumerate(plain) if n and word in ARTICLES]
    if not found and plain[:1] and plain[0] in _WHEN and plain[1] in _VERBS and words[2][:1].isupper():
        found = [2]  # a name: "When is Harbour Hall open on Sundays?"
    if len(found) != 1 or own[0] not in ARTICLES - _ONE or not _NO_THINGS.isdisjoint(own):
        return 0
    at = found[0]
    behind = any(_PLACE.match(f"{word} ") or word in _BESIDES for word in (plain[at - 1], *own[1:2]))
    return at if not behind and _OF.isdisjoint(plain[at + 1 :]) else 0


def _bare(word: str) -> str:
    """A preposition without an article in it, in lower case."""
    return CONTRACTED.get(word.casefold(), word.casefold())


def _shape(words: Sequence[str]) -> tuple[str, bool, bool]:
    """A preposition, whether an article follows, and whether a name: "in the blue hall" does not become "in Lille"."""
    at, others = words[0], words[1:]
    bare = CONTRACTED.get(at.casefold())
    article = bare is None and bool(others) and others[0].casefold() in ARTICLES
    named = others[article : article + 1]
    return bare or at.casefold(), article or bare is not None, bool(named) and named[0][:1].isupper()


def _is_whole(question: str) -> bool:
    """Whether it says what it asks. Instructions of edits are among the questions before, too."""
    words = question.casefold().split()
    fewest = FEWEST_WITH_VERB if words[:1] and words[0] in _VERBS else FEWEST_WORDS
    if len(words) < fewest or INSTEAD.match(question):
        return False
    return question.rstrip().endswith("?") or not ASKS.isdisjoint(words[:FEWEST_WORDS])
