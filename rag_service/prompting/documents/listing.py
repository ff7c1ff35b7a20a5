"""Questions for a list of documents ("Which documents mention hotels?"): answered from the search with counts.

A model would invent such a list; it reads five passages. So the service states it, and the worker writes it down. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag_service.prompting.template import PromptTemplate
from rag_service.prompting.verbs import QUESTION_WORDS
from retriever import Mentions
from retriever.search.mentions import Mention
from workers.broker.messages import SentenceSupport, Stated

MOST = 20
"""Documents that an answer names; it counts all."""


_QUOTES = "”“„«»「」‘’\"' "


def looked_up(
    words: str, template: PromptTemplate, mentions: Callable[[str], Mentions]
) -> tuple[Sequence[str], str, Mentions] | None:
    """The documents that mention the words, or if these stand together nowhere, all or any of "A, B and C", "A or B".

    None for both at once, as in "A and B or C", which can be meant in two ways, and for a question behind the words:
    "schools and what do they cost".

    Args:
        mentions: looks up a phrase.

    Returns:
        the phrases, what stands between them in the answer, and the documents.
    """
    whole = mentions(words)
    if not whole.found or not whole.together:
        joints = ((template.listing_and, True), (template.listing_or, False))
        found = [(parts, *joint) for joint in joints if len(parts := _phrases(words, joint[0].strip(_QUOTES))) > 1]
        if len(found) > 1:
            return None
        for phrases, joint, every in found:
            if any(map(_asks, phrases[1:])):
                return None
            return phrases, joint, _joined([mentions(phrase) for phrase in phrases], every)
    return [words], "", whole


def _phrases(words: str, joint: str) -> list[str]:
    """The parts of "A, B and C", without their quotes; one if `joint` does not stand there as a word of its own."""
    spaced = joint.isascii()  # other scripts write no spaces
    between = rf"\s+{re.escape(joint)}\s+" if spaced else re.escape(joint)
    if not re.search(between, words, re.IGNORECASE):
        return [words]
    behind_comma = rf"(?:{re.escape(joint)}\s+)?" if spaced else ""
    parts = re.split(rf"{between}|[,、]\s*{behind_comma}", words, flags=re.IGNORECASE)
    return [phrase for part in parts if (phrase := part.strip(_QUOTES))]


def _asks(phrase: str) -> bool:
    first, *others = phrase.casefold().split()
    return first in QUESTION_WORDS and bool(others)


def _joined(lists: Sequence[Mentions], every: bool) -> Mentions:
    """The documents of all lists, or of any, with the first of their passages and their chunks added up."""
    by_document: dict[tuple[str, str], list[Mention]] = {}
    for one in lists:
        for mention in one.found:
            by_document.setdefault((mention.passage.collection, mention.passage.document_id), []).append(mention)
    found = [
        Mention(some[0].passage, sum(one.chunks for one in some))
        for some in by_document.values()
        if not every or len(some) == len(lists)
    ]
    found.sort(key=lambda one: (-one.chunks, one.passage.document_id, one.passage.collection))
    return Mentions(found, lists[0].documents, all(one.together for one in lists if one.found))


def stated(phrases: Sequence[str], joint: str, mentions: Mentions, template: PromptTemplate) -> Stated:
    """The answer: how many documents mention the words, and which. Each document's line cites its first passage.

    Args:
        phrases: what was looked up.
        joint: what stands between them.
    """
    words = joint.join(phrases)
    count, total = len(mentions.found), mentions.documents
    if not count:
        return Stated(text=template.listing_none.format(total=total, words=words))
    opening = template.listing if mentions.together else template.listing_apart
    text = opening.format(count=count, total=total, words=words)
    sentences = []
    for number, one in enumerate(mentions.found[:MOST]):
        line = template.listing_line.format(title=one.passage.title, passages=one.chunks)
        start, end = _span(one.passage.text, phrases)
        text += "\n"
        sentences.append(
            SentenceSupport(
                start=len(text),
                end=len(text) + len(line),
                support=1.0,
                passage=number,
                source_start=start,
                source_end=end,
            )
        )
        text += line
    if count > MOST:
        text += "\n" + template.listing_more.format(count=count - MOST)
    return Stated(text=text, sentences=sentences)


def _span(text: str, phrases: Sequence[str]) -> tuple[int, int]:
    """Where the first of the phrases stands in a text; the whole text if none stands there as it was written."""
    for phrase in phrases:
        if found := re.search(r"\s+".join(re.escape(word) for word in phrase.split()), text, re.IGNORECASE):
            return found.span()
    return 0, len(text)
