"""A follow-up made to stand alone: what the target model is asked, and whether its reply can be used. Pure.

The conversation is quoted in one message, behind examples in the same form. Shown as turns of its own, models tend to
go on with it: they answer instead of rewriting. Knows prompts and words; knows no queue and no settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_service.prompting.follow_up import content_words, pronouns
from rag_service.prompting.prompt import PromptTokens, content_segment, length
from workers.broker.messages import Segment, TurnRecord

EXCHANGES = 4
"""Questions before this one that are shown, the last ones."""
ANSWER_CHARS = 320
"""Of an answer that are shown: what it is about stands at its beginning."""
PROMPT_TOKENS = 1024
"""Most tokens of the prompt; older exchanges leave first."""
MOST_TOKENS = 64
"""Of a rewritten question. One that is longer is cut off, and not used."""
MOST_ADDED_CHARS = 160
"""By which a rewritten question may be longer than the question."""
MOST_UNKNOWN = 1 / 3
"""Share of a rewritten question's words that neither the question nor the conversation has."""
STEM = 4
"""Characters by which forms of one word are told to be the same."""

TASK = (
    "Rewrite the last question so that it can be understood without the conversation: put the names in place of words "
    "like it, he or there, and add what is left out. Keep its language. Do not answer it."
)
EXAMPLES = (
    (
        "Question: What is the capital of France?\nAnswer: The capital of France is Paris.\n"
        "Last question: And of Spain?",
        "What is the capital of Spain?",
    ),
    (
        "Question: Who wrote Faust?\nAnswer: Faust was written by Johann Wolfgang von Goethe.\n"
        "Last question: When was he born?",
        "When was Johann Wolfgang von Goethe born?",
    ),
    (
        "Question: How long is the warranty of the pump?\nAnswer: The pump has a warranty of two years.\n"
        "Last question: What does it not cover?",
        "What does the warranty of the pump not cover?",
    ),
)
"""Messages, and what the model should reply. Small models follow these rather than the task."""

_LABEL = re.compile(r"^(?:(?:rewritten|standalone|last)?\s*question|rewrite)\s*:\s*", re.IGNORECASE)
_QUOTES = "\"'`“”‘’«»*"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question as it was understood, and its answer."""

    asked: str
    answer: str


def exchanges(turns: Sequence[TurnRecord]) -> list[Exchange]:
    """What was said in a session. A question that was rewritten counts as what it was rewritten to."""
    return [
        Exchange(turn.instruction or turn.retrieval_query or turn.question, turn.segments[-1].text) for turn in turns
    ]


def prompt(question: str, past: Sequence[Exchange], tokens: PromptTokens, window: int) -> list[Segment] | None:
    """The prompt that asks for a question's rewrite.

    Args:
        past: oldest first.
        window: tokens that the model can hold.

    Returns None where not even the last exchange has room.
    """
    room = min(window - MOST_TOKENS, PROMPT_TOKENS)
    for first in range(max(len(past) - EXCHANGES, 0), len(past)):
        segments = _segments(question, past[first:], tokens)
        if sum(length(segment, tokens) for segment in segments) <= room:
            return segments
    return None


def usable(text: str, question: str, past: Sequence[Exchange]) -> str | None:
    """A rewrite as it came from the model, tidied; None for one that is empty, far too long or about something else.

    So is an earlier question repeated. It has to say at least two thirds of what the question says, and most of its
    words must come from the question or from the conversation. It has to add a word that a passage could be about, and
    where the question has pronouns, a name must have taken the place of at least one.
    """
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = _LABEL.sub("", line).strip().strip(_QUOTES).strip()
    said = content_words(line)
    if any(line.casefold() == _line(exchange.asked).casefold() for exchange in past):
        return None
    if not said or len(line) > len(question) + MOST_ADDED_CHARS:
        return None
    asked, stems = _stems(question), _stems(line)
    if stems <= asked or 0 < pronouns(question) <= pronouns(line):
        return None
    if 3 * len(asked & stems) < 2 * len(asked):
        return None
    known = asked.union(*(_stems(exchange.asked) | _stems(exchange.answer) for exchange in past))
    return line if len(stems - known) <= max(1, MOST_UNKNOWN * len(stems)) else None


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in content_words(text)}


def _segments(question: str, past: Sequence[Exchange], tokens: PromptTokens) -> list[Segment]:
    told = [TASK, *(text for example in EXAMPLES for text in example)]
    contents = [[content_segment("system" if n == 0 else "instruction", text)] for n, text in enumerate(told)]
    shown = [content_segment("question", f"Question: {_line(e.asked)}\nAnswer: {_excerpt(e.answer)}\n") for e in past]
    contents.append([*shown, content_segment("question", f"Last question: {_line(question)}")])
    roles = ["system", *(["user", "assistant"] * len(EXAMPLES)), "user"]
    segments: list[Segment] = []
    for piece in tokens.template_pieces([{"role": role, "content": ""} for role in roles], True):
        segments += [content_segment("template", piece)] if isinstance(piece, str) else contents[piece]
    return segments


def _line(text: str) -> str:
    return " ".join(text.split())


def _excerpt(text: str) -> str:
    """The beginning of a text, up to the end of a sentence or word."""
    line = _line(text)
    if len(line) <= ANSWER_CHARS:
        return line
    cut = line[:ANSWER_CHARS]
    ends = [match.end() for match in re.finditer(r"[.!?。！？](?=\s|$)", cut)]
    return cut[: ends[-1]] if ends and ends[-1] > ANSWER_CHARS // 3 else f"{cut.rsplit(' ', 1)[0]} …"
