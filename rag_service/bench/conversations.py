"""Conversations to measure: their messages, and the documents they are about. Knows files; knows no service.

The files are those of `rag bench decode`: one JSON object a line. Items of several turns become conversations without
passages; those of one turn get an edit of the answer. Items with passages and an article's title (`meta.title`)
become conversations about that article: three of its questions, then an edit of the last answer. Long conversations
start with a long prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.recording.prompts import BenchError, read_fields, spread

QUESTIONS = 3
"""Questions about an article before the edit."""
EDIT = "Begin the answer with the words “According to the documents,” and change nothing else in it."
EDIT_SENTENCE = "Add the sentence “This is a revised version.” at the beginning of your last answer."
LONG = "follow_up"
"""Benchmark of the conversations that start with a long prompt."""
LONG_TURNS = (
    "Name one subject of this text.",
    "Name another subject of it.",
    "Which of the two takes more room in it?",
)
LONG_MAX_TOKENS = 16
ROOM = 120
"""Tokens of a long prompt that are not its text: the template, the first question and answer, the second question."""


@dataclass(frozen=True, slots=True)
class Message:
    """A question, or an instruction that edits the answer before it."""

    text: str
    edit: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation.

    Attributes:
        retrieval: whether passages are retrieved.
        max_tokens: of each answer; None: as the run says.
    """

    id: str
    benchmark: str
    messages: tuple[Message, ...]
    retrieval: bool = False
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """The conversations of a run and the articles it ingests, as title -> text."""

    conversations: tuple[Conversation, ...]
    articles: dict[str, str]

    @property
    def digest(self) -> str:
        """Equal for equal conversations and articles."""
        serialized = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(serialized.encode()).hexdigest()[:16]


def load_material(
    files: Iterable[Path],
    *,
    limit: int | None = None,
    max_chars: int | None = None,
    long_tokens: int = 0,
    count: Callable[[str], int] = lambda text: len(text) // 4,
) -> Material:
    """Read the files and choose conversations.

    Args:
        files: JSONL files.
        limit: conversations per benchmark, spread evenly over it.
        max_chars: longest text of an item, passages and turns together; longer items are left out.
        long_tokens: approximate length of the second prompt of a long conversation; 0: no long conversations. The text
            is that of the files' passages; without passages there are no long conversations.
        count: counts the tokens of a text.

    Returns:
        The conversations in rounds: the first of every benchmark, then the second of every benchmark, and so on.

    Raises:
        BenchError: a file is missing or has another format, or no conversation is left.
    """
    if limit is not None and limit < 1:
        raise BenchError(f"--limit must be at least 1, got {limit}")
    items = [_checked(*line) for path in files for line in read_fields(path)]
    if max_chars is not None:
        items = [item for item in items if sum(map(len, (*item["turns"], *(item.get("context") or ())))) <= max_chars]
    benchmarks: dict[str, list[Conversation]] = {}
    for item in items:
        if not item.get("context"):
            messages = tuple(map(Message, item["turns"]))
            messages = messages if len(messages) > 1 else (*messages, Message(EDIT_SENTENCE, edit=True))
            benchmarks.setdefault(item["benchmark"], []).append(Conversation(item["id"], item["benchmark"], messages))
    titles: dict[str, str] = {}
    for conversation, title in _about_articles(items):
        benchmarks.setdefault(conversation.benchmark, []).append(conversation)
        titles[conversation.id] = title
    chosen = [spread(group)[:limit] for group in benchmarks.values()]
    if long_tokens:
        chosen.append(_long(items, long_tokens, count, limit or 2))
    rounds = max(map(len, chosen), default=0)
    conversations = tuple(group[i] for i in range(rounds) for group in chosen if i < len(group))
    if not conversations:
        raise BenchError("no conversation is left: items with passages need a meta.title; give other files with --data")
    ids = [conversation.id for conversation in conversations]
    if len(set(ids)) < len(ids):
        raise BenchError("an id occurs twice; give each file once, with unique ids")
    used_titles = dict.fromkeys(titles[id] for id in ids if id in titles)
    return Material(conversations, {title: _article(items, title) for title in used_titles})


def _about_articles(items: Sequence[dict[str, Any]]) -> Iterable[tuple[Conversation, str]]:
    """(conversation, title): the first of every article, then the second of every article, and so on."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in items:
        title = (item.get("meta") or {}).get("title")
        if item.get("context") and title and (item.get("meta") or {}).get("answerable", True):
            groups.setdefault((item["benchmark"], title), []).append(item)
    number = 0
    while any(len(group) >= number + QUESTIONS for group in groups.values()):
        for (benchmark, title), group in groups.items():
            about = group[number : number + QUESTIONS]
            if len(about) == QUESTIONS:
                messages = (*(Message(item["turns"][0]) for item in about), Message(EDIT, edit=True))
                yield Conversation(about[0]["id"], benchmark, messages, retrieval=True), title
        number += QUESTIONS


def _article(items: Sequence[dict[str, Any]], title: str) -> str:
    """All passages of an article, each once."""
    passages = [p for item in items if (item.get("meta") or {}).get("title") == title for p in item["context"]]
    return "\n\n".join(dict.fromkeys(passages))


def _long(items: Sequence[dict[str, Any]], tokens: int, count: Callable[[str], int], limit: int) -> list[Conversation]:
    """Conversations about texts of `tokens - ROOM` tokens, each about a text of its own."""
    words = " ".join(dict.fromkeys(p for item in items for p in item.get("context") or ())).split(" ")
    conversations: list[Conversation] = []
    while len(conversations) < limit:
        low, high = 0, min(len(words), tokens)  # a word has at least one token
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if count(" ".join(words[:middle])) <= tokens - ROOM else (low, middle - 1)
        if low == len(words):  # not enough text is left
            return conversations
        first, *others = LONG_TURNS
        messages = tuple(map(Message, (f"{' '.join(words[:low])}\n\n{first}", *others)))
        id = f"{LONG}-{len(conversations) + 1}"
        conversations.append(Conversation(id, LONG, messages, max_tokens=LONG_MAX_TOKENS))
        words = words[low:]
    return conversations


def _checked(where: str, item: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(item.get("meta") or {}, dict):
        raise BenchError(f"{where} has a bad meta; it must be an object")
    return item
