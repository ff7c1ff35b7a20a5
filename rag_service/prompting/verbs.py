"""Verbs that questions often begin with, by ISO 639-1 code, and question words. Pure. Knows words alone."""

from __future__ import annotations

_IN_LINES = {
    "en": """
        is are was were am isn't aren't wasn't weren't do does did don't doesn't didn't has have had hasn't haven't
        can could can't cannot couldn't may might must mustn't shall should shouldn't will would won't wouldn't need
    """,
    "de": """
        ist sind war waren bin bist hat habe haben hast hatte wird werden wurde werde darf darfst dürfen dürfte kann
        kannst können könnte könnten muss musst müssen soll sollen sollte will willst wollen lässt gibt gilt gelten
        bekomme bekommt kriege kriegt brauche nehme kostet dauert
    """,
    "nl": """
        is zijn was waren ben bent heeft heb hebt hebben had wordt worden werd mag mogen kan kun kunt kunnen moet moeten
        zal zullen zou wil willen hoeft hoef krijg krijgt ga gaat doe zit staat geldt gelden kost duurt
    """,
    "es": """
        es son era eran está están puede pueden debe deben hay tiene tienen cuesta cuestan dura duran
    """,
}
VERBS = {language: frozenset(words.split()) for language, words in _IN_LINES.items()}
_QUESTION_WORDS_IN_LINES = """
    what who whom whose when where why how which
    was wer wen wem wann wo wohin woher warum wieso weshalb wie welche welcher welches
    wat wie wanneer waar waarom hoe welk welke
    qué quién quiénes cuándo dónde cómo cuánto cuánta cuál
"""
QUESTION_WORDS = frozenset(_QUESTION_WORDS_IN_LINES.split())
"""Of all these languages."""
