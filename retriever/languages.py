"""The language of a text. Knows a language identifier and words of some languages; knows no document and no prompt."""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any

CHINESE = frozenset({"wuu", "yue", "zh", "lzh", "gan", "hak", "nan", "cdo"})
"""What the identifier calls short Chinese texts; all of them are written with the same signs."""
SHORT = 12
"""Words of a text whose language its function words tell better. Names are half of "Who is Anke Holmqvist?", which the
identifier takes for Xhosa: of 240 such questions in English it took 74 for another language, of 180 in Dutch 67."""
LEAST_SHARE = 0.2
"""Least function words of a language among those of a text; "Los" in a Greek question makes it no Spanish one."""
_FUNCTION_WORDS_IN_LINES = {
    "en": """
        who whom whose what which when where why how is are was were do does did can could may must should will would
        has have had the and for with from about my our your there this that tell much many long often any not it its
        """,
    "de": """
        wer wen wem wessen was welche welcher welches welchen wann wo woher wohin warum wieso wie ist sind war waren hat
        haben kann können darf dürfen muss müssen soll wird werden gibt kostet beginnt der die das den dem des ein eine
        einen einem einer und oder für mit von zu zum zur bei beim im am auf nach aus nicht viel viele lange oft
        """,
    "nl": """
        wie wat welke welk wanneer waar waarom hoe hoeveel is zijn was heeft hebben kan kunnen mag mogen moet moeten
        wordt worden kost begint het een voor met van naar bij uit niet deze dit dat lang vaak
        """,
    "fr": """
        qui que quoi quel quelle quels quelles quand où pourquoi comment combien est sont était ont peut peuvent doit
        doivent coûte commence le les une des du pour avec dans sur aux pas
        """,
    "es": """
        quién quiénes qué cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas está están fue tiene puede deben
        debe cuesta el los las una del para con por hay
        """,
    "it": """
        chi che cosa quale quali quando dove perché come quanto quanta sono può deve costa il gli una della per con si
        """,
    "pt": "quem qual quais quando onde quanto quanta são está tem pode deve custa os as uma para com não",
    "da": "hvem hvad hvilken hvilke hvornår hvor hvorfor hvordan har kan koster det den eller ikke af på til med",
    "no": "hvem hva hvilken hvilke når hvor hvorfor hvordan har kan koster det den eller ikke av på til med",
    "sv": "vem vad vilken vilka när var varför hur är har kan kostar det den ett och eller inte av på till med",
}
_FUNCTION_WORDS = {code: frozenset(words.split()) for code, words in _FUNCTION_WORDS_IN_LINES.items()}
_WORD = re.compile(r"[^\W\d_]+")

_lock = threading.Lock()


def language_of(text: str) -> str:
    """The ISO 639 code of a text's language; "en" for a text without letters.

    Of a short text, the languages with most of its function words are the candidates, if it has any.
    """
    if not any(character.isalpha() for character in text):
        return "en"
    words = _WORD.findall(text.casefold())
    hits = {code: sum(word in own for word in words) for code, own in _FUNCTION_WORDS.items()}
    most = max(hits.values()) if len(words) <= SHORT else 0
    if most < LEAST_SHARE * len(words):
        most = 0
    with _lock:
        ranked = _identifier().rank(text) if most else [_identifier().classify(text)]
    code = next(str(code) for code, _ in ranked if not most or hits.get(str(code)) == most)
    return "zh" if code in CHINESE else code


@cache
def _identifier() -> Any:
    """The identifier; loading takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
