"""Words in other forms: plurals that stemmers do not reduce to their singulars (children, kinderen, dagen), words
for one thing, and words that are near each other, such as compounds and their parts. Knows words; knows no sentences.
"""

from __future__ import annotations

_PLURALS = """
    children child men man women woman people person feet foot teeth tooth mice mouse geese goose
    wives wife knives knife
    shelves shelf halves half loaves loaf scarves scarf grandchildren grandchild
    kinderen kind kleinkinderen kleinkind eieren ei kalveren kalf lammeren lam bladeren blad goederen goed liederen lied
    leden lid steden stad schepen schip dagen dag werkdagen werkdag feestdagen feestdag wegen weg daken dak gaten gat
    glazen glas vaten vat dalen dal slagen slag spelen spel sloten slot oorlogen oorlog smeden smid
"""
_WORDS = _PLURALS.split()
SINGULARS = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))
"""Plural -> singular."""
_SAME_IN_LINES = """
    erhalten erhält erhalte bekommen bekommt bekomme bekommst kriegen kriegt
    verleihen verleiht verliehen ausleihen ausgeliehen leihen leiht geliehen
    mieten mietet gemietet vermieten vermietet
    krijgen krijgt krijg ontvangen ontvangt
    uitlenen uitgeleend lenen leent geleend
    huren huurt gehuurd verhuren verhuurt verhuurd
    hire hired hires rent rented rents
    lend lends lent borrow borrowed borrows
"""
SAME = {word: line.split()[0] for line in _SAME_IN_LINES.strip().splitlines() for word in line.split()}
"""Words for one thing, as the first of them: what is lent is borrowed."""
SHARED = 5
"""Leading characters of words that count as one."""


def near(word: str, around: frozenset[str]) -> bool:
    """Whether a word is among others, in some form or as a part of one."""
    if word in around or len(word) < SHARED - 1:
        return word in around or f"{word}s" in around  # the stemmer leaves words without a vowel: DVDs
    begins = word[:SHARED] if len(word) >= SHARED else word
    return any(
        other.startswith(begins) or word in other or (len(other) >= SHARED - 1 and other in word) for other in around
    )


def heads(part: str, word: str) -> bool:
    """Whether a word may be the first part of a compound, which names something else: Hütte, of Hüttenladen."""
    return len(word) - len(part) >= SHARED - 1 and word[: SHARED - 1] == part[: SHARED - 1] and not word.endswith(part)
