"""The words of a language that say little by themselves (stopwordsiso)."""

from __future__ import annotations

from functools import cache

_TELLING = """
    member members room rooms page pages home year years group groups bill computer system site ring full free front
    back top bottom inside outside small large long old young high open opens opened opening openings ends ended begins
    copy order orders test world last latest past older oldest newer newest younger youngest longest largest smallest
    highest lowest high low higher lower plus date dates fire face key keys area areas information thick thin width
    empty novel mill mine goods alone big bigger biggest smaller new early
    erste erster ersten erstes dritte dritter dritten drittes vierte vierter vierten fünfte fünfter fünften jahr jahre
    jahren tag tage tagen offen kleine kleiner kleines kleinen neuen neue neues neuer morgen heute mittel allein
    alleine
    día días última último últimas últimos mayor parte total valor grandes nueva nuevo nuevas nuevos
"""
TELLING = frozenset(_TELLING.casefold().split())
"""Words that lists of English stop words have, and that tell one thing from another."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Those of a language by its ISO 639-1 code, in lower case; none of a language that has no list."""
    import stopwordsiso

    words = stopwordsiso.stopwords(language) if stopwordsiso.has_lang(language) else ()
    # of scripts without spaces, only the words that are themselves a sign or a pair can occur
    return frozenset(word.casefold().replace("’", "'") for word in words)
