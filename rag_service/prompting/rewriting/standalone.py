"""The rewriting of a follow-up into a question that stands alone: its prompt, and the check of the reply. Pure.

One message quotes the conversation, after examples of the same form. As turns of its own, the conversation would tempt
models to answer the question instead of rewriting it. Knows prompts and words; knows no queue and no settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_service.prompting.prompt import PromptTokens, content_segment, length
from rag_service.prompting.rewriting.beginning import own_words
from rag_service.prompting.rewriting.examples import EXAMPLES, Example
from rag_service.prompting.rewriting.follow_up import looks_back
from rag_service.prompting.rewriting.pronouns import pronouns
from rag_service.prompting.rewriting.words import content_words
from workers.broker.messages import Segment, TurnRecord

EXCHANGES = 4
"""Most exchanges in the prompt, the last ones, for a question that compares or goes back. Others see the last one only,
or a model of 1.5B takes the subject of an earlier one."""
ANSWER_CHARS = 320
"""Most characters of an answer in the prompt; its beginning says what it is about."""
PROMPT_TOKENS = 1024
"""Most tokens of the prompt; the last examples are dropped first, then the oldest exchanges."""
FEWEST_EXAMPLES = 3
MOST_TOKENS = 64
"""Most tokens of a rewritten question. A longer one is cut off and not used."""
MOST_ADDED_CHARS = 160
"""Most characters that a rewrite may add to the question."""
MOST_UNKNOWN = 1 / 3
"""Largest share of a rewrite's words that neither the question nor the conversation contains."""
STEM = 4
"""Leading characters that the forms of one word share."""

TASK = (
    "Rewrite the last question so that it can be understood without the conversation: put the names in place of words "
    "like it, he or there, and add what is left out. Keep its language. Do not answer it."
)
_LABEL = re.compile(r"^(?:(?:rewritten|standalone|last)?\s*question|rewrite)\s*:\s*", re.IGNORECASE)
_QUOTES = "\"'`“”‘’«»*"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question as it was understood, and its answer."""

    question: str
    answer: str


def exchanges(turns: Sequence[TurnRecord]) -> list[Exchange]:
    """The exchanges of a session, with rewritten questions in place of the original ones.

    An edit answers the question of the answer that it changed: "Shorter." says nothing of what it is about.
    """
    meant: dict[str, str] = {}
    for turn in turns:
        before = meant.get(turn.base or "", turn.question)
        meant[turn.answer_id] = turn.retrieval_query or before
    return [Exchange(meant[turn.answer_id], turn.segments[-1].text) for turn in turns]


def prompt(
    question: str,
    past: Sequence[Exchange],
    tokens: PromptTokens,
    window: int,
    *,
    language: str = "en",
    beginning: str = "",
) -> list[Segment] | None:
    """The prompt that asks for a question's rewrite.

    Args:
        past: oldest first.
        window: tokens that the model can hold.
        language: of the conversation, an ISO 639-1 code; that of the examples.
        beginning: words of the reply that the prompt already holds.

    Returns None if not even the last exchange fits.
    """
    room = min(window - MOST_TOKENS, PROMPT_TOKENS)
    examples = EXAMPLES.get(language, EXAMPLES["en"])
    for first in range(max(len(past) - (EXCHANGES if looks_back(question) else 1), 0), len(past)):
        for shown in (examples, examples[:FEWEST_EXAMPLES]):
            segments = _segments(question, past[first:], tokens, shown, beginning)
            if sum(length(segment, tokens) for segment in segments) <= room:
                return segments
    return None


def completed(beginning: str, reply: str) -> str:
    """The rewrite, of which the prompt held the beginning. A model may write it again."""
    text = reply.lstrip()
    if text.casefold().startswith(beginning.casefold()):
        return text
    return f"{beginning} {text}" if text[:1].isalnum() else f"{beginning}{text}"


def usable(text: str, question: str, past: Sequence[Exchange]) -> str | None:
    """The model's rewrite without label and quotes, or None if it cannot be used.

    A usable rewrite is one short question, repeats no earlier one, and answers none. It keeps at least two thirds of
    the question's content words, adds at least one, and takes most of its words from the question or the conversation,
    but none from our examples alone. If the question has pronouns, the rewrite has fewer.
    """
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = _LABEL.sub("", line).strip().strip(_QUOTES).strip()
    words = content_words(line)
    if any(line.casefold() == _line(exchange.question).casefold() for exchange in past):
        return None
    if not words or len(line) > len(question) + MOST_ADDED_CHARS:
        return None
    if (question.rstrip().endswith("?") and line.endswith(".")) or "?" in line.rstrip("?"):
        return None
    question_stems, own = stems(own_words(question)), stems(line)
    if own <= question_stems or 0 < pronouns(question) <= pronouns(line):
        return None
    if 3 * len(question_stems & own) < 2 * len(question_stems):
        return None
    known = question_stems.union(*(stems(exchange.question) | stems(exchange.answer) for exchange in past))
    unknown = own - known
    return line if unknown.isdisjoint(_OURS) and len(unknown) <= max(1, MOST_UNKNOWN * len(own)) else None


def takes_from_answer(rewrite: str, question: str, past: Sequence[Exchange]) -> bool:
    """Whether a rewrite has a word of the last answer that no question has: it asks about what that answer said."""
    if not past or rewrite == question:
        return False
    asked = stems(question).union(*(stems(exchange.question) for exchange in past))
    return not (stems(rewrite) - asked).isdisjoint(stems(past[-1].answer))


def stems(text: str) -> set[str]:
    """The beginnings of a text's content words."""
    return {word[:STEM] for word in content_words(text)}


_OURS = frozenset(
    stem
    for group in EXAMPLES.values()
    for example in group
    for text in example
    for stem in stems(text)
    if len(stem) > 3
)
"""Words of our examples."""


def _segments(
    question: str, past: Sequence[Exchange], tokens: PromptTokens, examples: Sequence[Example], beginning: str
) -> list[Segment]:
    messages = [TASK]
    for example in examples:
        asked = f"Question: {example.question}\nAnswer: {example.answer}\nLast question: {example.follow_up}"
        messages += [asked, example.meant]
    contents = [[content_segment("system" if n == 0 else "instruction", text)] for n, text in enumerate(messages)]
    shown = [
        content_segment("question", f"Question: {_line(e.question)}\nAnswer: {_excerpt(e.answer)}\n") for e in past
    ]
    contents.append([*shown, content_segment("question", f"Last question: {_asked(question)}")])
    roles = ["system", *(["user", "assistant"] * (len(messages) // 2)), "user"]
    segments: list[Segment] = []
    for piece in tokens.template_pieces([{"role": role, "content": ""} for role in roles], True):
        segments += [content_segment("template", piece)] if isinstance(piece, str) else contents[piece]
    if beginning:
        segments.append(content_segment("instruction", beginning))
    return segments


def _line(text: str) -> str:
    return " ".join(text.split())


def _asked(question: str) -> str:
    """With its question mark, which many do not type: its rewrite ends with one, or goes on before it."""
    line = _line(question)
    return f"{line}?" if line[-1:].isalnum() else line


def _excerpt(text: str) -> str:
    """The beginning of a text, up to the end of a sentence or word."""
    line = _line(text)
    if len(line) <= ANSWER_CHARS:
        return line
    cut = line[:ANSWER_CHARS]
    ends = [match.end() for match in re.finditer(r"[.!?。！？](?=\s|$)", cut)]
    return cut[: ends[-1]] if ends and ends[-1] > ANSWER_CHARS // 3 else f"{cut.rsplit(' ', 1)[0]} …"
