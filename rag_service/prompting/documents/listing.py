"""Questions for a list of documents ("Which documents mention hotels?"): answered from the search with counts.

A model would invent such a list; it reads five passages. So the service states it, and the worker writes it down. Pure.
"""

from __future__ import annotations

import re

from rag_service.prompting.template import PromptTemplate
from retriever import Mentions
from workers.broker.messages import SentenceSupport, Stated

MOST = 20
"""Documents that an answer names; it counts all."""


def stated(words: str, mentions: Mentions, template: PromptTemplate) -> Stated:
    """The answer: how many documents mention the words, and which. Each document's line cites its first passage."""
    count, total = len(mentions.found), mentions.documents
    if not count:
        return Stated(text=template.listing_none.format(total=total, words=words))
    opening = template.listing if mentions.together else template.listing_apart
    text = opening.format(count=count, total=total, words=words)
    sentences = []
    for number, one in enumerate(mentions.found[:MOST]):
        line = template.listing_line.format(title=one.passage.title, passages=one.chunks)
        start, end = _span(one.passage.text, words)
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


def _span(text: str, words: str) -> tuple[int, int]:
    """Where the words stand in a text; the whole text if they do not stand there as they were written."""
    found = re.search(r"\s+".join(re.escape(word) for word in words.split()), text, re.IGNORECASE)
    return found.span() if found else (0, len(text))
