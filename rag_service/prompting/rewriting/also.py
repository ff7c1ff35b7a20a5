"""Follow-ups that ask whether an answer holds for others, too: "Does that apply to groups?" Pure.

What `that` stands for is all that was asked before, which no name replaces, and small models leave such a question as
it is. It asks what "And for groups?" asks, which they understand. Knows words of English, German, Dutch, French,
Spanish and Chinese; knows no model.
"""

from __future__ import annotations

import re

_HOLDS = (
    (
        r"(?:does|would) (?:that|this|the same)(?: rule)?(?: also| still| then)? (?:apply|hold|go)(?: also| as well)?"
        r" (?P<at>to|for|in|at|on|with|during) (?P<who>.+?)(?:,? (?:too|also|as well))?",
        "And {at} {who}?",
    ),
    (
        r"(?:gilt|gelten) (?:das|dies|dasselbe|das gleiche|die regel)(?: denn| dann| auch)*"
        r" (?P<at>für|bei|beim|in|im|an|am|mit|von|vom|nach|während) (?P<who>.+?)(?: auch| ebenso)?",
        "Und {at} {who}?",
    ),
    (
        r"geldt (?:dat|dit|hetzelfde|die regel)(?: dan| ook)*"
        r" (?P<at>voor|bij|in|op|met|van|na|tijdens) (?P<who>.+?)(?: ook)?",
        "En {at} {who}?",
    ),
    (
        r"(?:est-ce que )?(?:cela|ça) (?:vaut|s['’]applique|est valable)(?:-t-il)?(?: aussi| également)?"
        r" (?P<at>pour|dans|chez|avec|pendant) (?P<who>.+?)(?: aussi| également)?",
        "Et {at} {who} ?",
    ),
    (
        r"(?:(?:eso|esto|lo mismo) )?(?:también )?(?:vale|se aplica|aplica)(?: eso| esto| lo mismo)?(?: también)?"
        r" (?P<at>para|en|con|durante|a) (?P<who>.+?)(?: también)?",
        "¿Y {at} {who}?",
    ),
    (r"[这那](?:个规定|条规定|个)?(?:也|同样)*适用(?P<at>于)(?P<who>.+?)吗", "{who}呢？"),
)
_FORMS = tuple(
    (re.compile(rf"[¿\s]*(?:and |und |en |et |y )?{asks}[\s?？.!]*", re.IGNORECASE), meant) for asks, meant in _HOLDS
)
_FOR = {"to": "for", "a": "para"}
"""Prepositions that belong to the verb, and what stands for them without it."""


def plainly(question: str) -> str:
    """A question whether something holds for others, as one that only names them; any other as it is."""
    for form, meant in _FORMS:
        if match := form.fullmatch(question):
            at = match["at"].casefold()
            return meant.format(at=_FOR.get(at, at), who=match["who"])
    return question
