"""Plurals that stemmers do not reduce to their singulars: children, kinderen, dagen.

Knows words; knows no sentences.
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
