"""Words of questions: which refer to earlier text, and which no passage is about.

Of English, German, Dutch, French and Spanish; in scripts without spaces, characters. Pure.
"""

from __future__ import annotations

import re

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

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


def content_words(text: str) -> list[str]:
    """The words that a passage could be about, in lower case. In scripts without spaces, each character is a word."""
    return [word for word in WORD.findall(text.casefold()) if word not in EMPTY]


def plain(text: str) -> str:
    """In lower case, with single spaces, without quotation marks around it."""
    return " ".join(text.casefold().split()).strip(" \"'“”‘’¿¡(")
