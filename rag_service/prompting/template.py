"""Prompt templates: our own texts of a prompt, as data, one file a language. Knows texts and slots; knows no prompt.

A template is a TOML file with the fields of `PromptTemplate`. Slots such as `{question}` stand for contents; `{{` and
`}}` are braces. Templates have no code. A text outside the slots becomes an `instruction` segment.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from rag_service.errors import InvalidSettings
from rag_service.prompting import patterns

DEFAULT_LANGUAGE = "en"
"""Language of the template for questions in a language that has none."""
SLOTS: Mapping[str, tuple[str, ...]] = {
    "passage": ("title", "text"),
    "question": ("question",),
    "no_passages": ("question",),
    "greeted": ("question",),
    "whole": ("question",),
    "notes": ("question",),
    "check": ("question", "answer"),
    "edit": ("answer", "instruction"),
    "shorten": ("answer", "instruction", "words"),
    "listing": ("count", "total", "words"),
    "listing_apart": ("count", "total", "words"),
    "listing_none": ("total", "words"),
    "listing_line": ("title", "passages"),
    "listing_more": ("count",),
}
"""The slots that a field must have, each once, in any order. Other fields have none."""
UNTOLD = (
    *("refusal", "greetings", "revisions", "shorter", "doubts", "whole_questions", "listing_questions"),
    *("listing", "listing_apart", "listing_none", "listing_line", "listing_more", "listing_and", "listing_or"),
)
"""Texts that no model reads."""
ASKS_ON = frozenset({"and", "und", "en", "y"})
"""Words of revisions that begin no revision."""
MOST_OF_A_REVISION = 12
"""Words of a message about the last answer; a longer one has something else to say."""

MOST_OF_A_GREETING = 8
"""Words of a greeting or thanks."""
_ASKING_IN_LINE = "is was has will do ist war hat heeft es ha"
ASKING = frozenset(_ASKING_IN_LINE.split())
"""Words around greetings that begin none: "is that ok" asks, though it has no question mark."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The texts of a prompt in one language.

    Attributes:
        system: the system message of answers from passages.
        system_without_passages: the system message of `mode: none`.
        passage: a passage with its title.
        question: the question, after the passages.
        no_passages: the question, if no passage was found.
        check: in the question's place, whether the passages state the answer to it; the model replies Yes or No.
        refusal: the answer in place of one that is refused.
        greeted: a greeting or thanks, which needs no passages.
        greetings: words of messages that are no questions, and after `|` words that may stand around them.
        revisions: words, or pairs of them, of messages that are about the last answer, after `|` words that may stand
            around them, and after another one the first words of messages that are so with any other words, as in
            `make_that`.
        edit: an answer, and what to change about it.
        shorten: an answer, that it is to be shorter, and how many words it may have; small models change nothing else.
        shorter: words of messages that ask for that and nothing else.
        doubts: words of messages that doubt the last answer, after `|` words that may stand around them, and after
            another one the first words of such messages that have no question mark.
        whole: a question about one whole document, after its passages.
        notes: what to write down about a part of a document that is too long to be read at once.
        whole_questions: such questions, one a line (`patterns.py`).
        listing_questions: questions for a list of documents, one a line.
        listing, listing_apart, listing_none: answers to them: how many documents mention the words, have them apart in
            one passage, or that none does; listing_line, listing_more: a document, and how many are not named;
            listing_and, listing_or: what stands between the words that all documents or any of them mention.
    """

    system: str
    system_without_passages: str
    passage: str
    question: str
    no_passages: str
    check: str
    refusal: str
    greeted: str
    greetings: str
    revisions: str
    edit: str
    shorten: str
    shorter: str
    doubts: str
    whole: str
    notes: str
    whole_questions: str
    listing_questions: str
    listing: str
    listing_apart: str
    listing_none: str
    listing_line: str
    listing_more: str
    listing_and: str
    listing_or: str

    def shortens(self, instruction: str) -> bool:
        """Whether an instruction only says that an answer is to be shorter: "Make that shorter."

        "Shorter, and in German" says more.
        """
        asking, words = frozenset(self.shorter.split()), _words(instruction)
        own, around, _ = _word_lists(self.revisions, 3)
        return not asking.isdisjoint(words) and set(words) <= asking | around - own and len(words) <= MOST_OF_A_REVISION

    def instructions(self) -> list[str]:
        """What the model is told: the texts without slots and the texts around slots."""
        texts = [getattr(self, field.name) for field in fields(self) if field.name not in UNTOLD]
        return [part for text in texts for part, slot in parts(text) if slot is None and part.strip()]


def parts(text: str) -> list[tuple[str, str | None]]:
    """The parts of a template text in order: (text, None), or ("", slot).

    Raises:
        ValueError: a brace without its partner, or a slot that is more than a name.
    """
    found: list[tuple[str, str | None]] = []
    for literal, slot, spec, conversion in string.Formatter().parse(text):
        if literal:
            found.append((literal, None))
        if slot is not None:
            if not slot.isidentifier() or spec or conversion:
                raise ValueError(f"{{{slot}}} is not a slot; a slot is a name in braces, and {{{{ is a brace")
            found.append(("", slot))
    return found


def check(name: str, text: object) -> str:
    """The text of a field, if its slots are those that the field must have.

    Raises:
        ValueError: they are not; the message says which ones it must have.
    """
    if name.endswith("_questions") and isinstance(text, str):
        return patterns.check(name, text)
    wanted = SLOTS.get(name, ())
    if not isinstance(text, str):
        raise ValueError(f"the template text `{name}` must be a text, got {text!r}")
    try:
        given = [slot for _, slot in parts(text) if slot is not None]
    except ValueError as error:
        raise ValueError(f"the template text `{name}` is wrong: {error}") from None
    if sorted(given) != sorted(wanted):
        need = " and ".join(f"{{{slot}}}" for slot in wanted) or "no slots"
        raise ValueError(f"the template text `{name}` must have {need}, each once; it has {given or 'none'}")
    if not text.strip():
        raise ValueError(f"the template text `{name}` is empty")
    return text


def checked(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Some texts of a template, by field.

    Raises:
        ValueError: one is no text of a template, or has other slots; the message says what it must have.
    """
    known = {field.name for field in fields(PromptTemplate)}
    if unknown := sorted(set(texts) - known):
        raise ValueError(f"a prompt has no text {_names(unknown)}; its texts are {_names(known)}")
    return {name: check(name, text) for name, text in texts.items()}


class Templates:
    """The templates of a service.

    Args:
        folder: more templates (`nl.toml`); a file replaces the one of the same name that the package has, and may
            leave out fields of it.
        overrides: texts that replace those of every language.
        language: the language to use for all questions; None: that of the question.
        collections: texts that replace those of every language, by collection.

    Raises:
        InvalidSettings: a file or a text is wrong; the message names it.
    """

    def __init__(
        self,
        folder: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        language: str | None = None,
        collections: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        texts = dict(shipped())
        for path in sorted(folder.glob("*.toml")) if folder is not None else ():
            texts[path.stem] = {**texts.get(path.stem, texts[DEFAULT_LANGUAGE]), **_read(path)}
        if folder is not None and not folder.is_dir():
            raise InvalidSettings(f"RAG_PROMPT__FOLDER: {folder} is not a folder")
        if language is not None and language not in texts:
            raise InvalidSettings(f"RAG_PROMPT__LANGUAGE: there is no template {language}; give one of {_names(texts)}")
        self._templates = {name: _checked(name, {**fields, **(overrides or {})}) for name, fields in texts.items()}
        self._language = language
        self._collections = dict(collections or {})
        for name, own in self._collections.items():
            try:
                checked(own)
            except ValueError as error:
                raise InvalidSettings(f"RAG_PROMPT__COLLECTIONS, {name}: {error}") from None

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self._templates)

    def of(self, question: str, collection: str | None = None, own: Mapping[str, str] | None = None) -> PromptTemplate:
        """The template for a question: of its language, else the English one.

        Args:
            collection: whose own texts replace those of the template.
            own: texts of the request, which replace all others.

        Raises:
            ValueError: one of `own` is no text of a template, or has other slots.
        """
        template = self._templates[self.language(question)]
        texts = {**self._collections.get(collection or "", {}), **checked(own or {})}
        return replace(template, **texts) if texts else template

    def digest_of(self, template: PromptTemplate) -> str:
        """`digest` for one of the templates; "" for one with texts of a collection or a request."""
        return self.digest if template in self._templates.values() else ""

    def language(self, question: str) -> str:
        """The language of the template for a question."""
        if self._language is not None:
            return self._language
        from retriever.languages import language_of

        detected = language_of(question)
        greeted = self._greeting_in(question)
        if greeted and detected not in greeted:
            return DEFAULT_LANGUAGE if DEFAULT_LANGUAGE in greeted else greeted[0]
        return detected if detected in self._templates else DEFAULT_LANGUAGE

    def asked(self, kind: Literal["whole", "listing"], question: str) -> tuple[str, PromptTemplate] | None:
        """What a question of this kind is about, and the template whose `…_questions` it fits; None if it fits none.

        The template of the question's language comes first: short questions are taken for other languages.
        """
        for template in (self.of(question), *self._templates.values()):
            if words := patterns.words_of(question, getattr(template, f"{kind}_questions")):
                return words, template
        return None

    @cached_property
    def digest(self) -> str:
        """Names the texts that answers and their support depend on: a calibration holds for one digest."""
        parts = ("system", "passage", "question", "check")
        texts = {name: [getattr(one, part) for part in parts] for name, one in self._templates.items()}
        return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]

    def is_greeting(self, message: str) -> bool:
        """Whether a message is only a greeting or a word of thanks, and asks nothing.

        In a question, as in "Is that good?" or "is that ok", the words around greetings count as others.
        """
        return bool(self._greeting_in(message))

    def _greeting_in(self, message: str) -> list[str]:
        """The languages in which a message is only a greeting."""
        words = _words(message)
        if len(words) > MOST_OF_A_GREETING:
            return []
        asks = "?" in message or not ASKING.isdisjoint(words[:1])
        return [
            name
            for name, (own, around) in self._greetings.items()
            if not own.isdisjoint(words) and (own if asks else own | around) >= set(words)
        ]

    def is_revision(self, message: str) -> bool:
        """Whether a message only says how the last answer is to be written: "Shorter, please."

        One that begins with a word such as "and" asks on: "And in German?" may be about a manual.
        """
        words = _words(message)
        if not words or len(words) > MOST_OF_A_REVISION or words[0] in ASKS_ON:
            return False
        pairs = ["_".join(pair) for pair in pairwise(words)]
        begins = {words[0], *pairs[:1]}
        return any(
            (not own.isdisjoint([*words, *pairs]) and own | around >= set(words)) or not beginnings.isdisjoint(begins)
            for own, around, beginnings in self._revisions
        )

    def asks(self, message: str) -> bool:
        """Whether a message may ask something by itself: it is no greeting, and not only about the last answer."""
        return not (self.is_greeting(message) or self.is_revision(message))

    def is_doubt(self, message: str) -> bool:
        """Whether a message only doubts the last answer: "Are you sure?" It is to be looked up again."""
        words = _words(message)
        asks = message.rstrip().endswith(("?", "？"))
        return 0 < len(words) <= MOST_OF_A_GREETING and any(
            not own.isdisjoint(words) and own | around >= set(words) and (asks or words[0] in firsts)
            for own, around, firsts in (_word_lists(one.doubts, 3) for one in self._templates.values())
        )

    @cached_property
    def _revisions(self) -> list[tuple[frozenset[str], ...]]:
        return [_word_lists(one.revisions, 3) for one in self._templates.values()]

    @cached_property
    def _greetings(self) -> dict[str, tuple[frozenset[str], ...]]:
        return {name: _word_lists(one.greetings, 2) for name, one in self._templates.items()}

    def instructions(self) -> list[str]:
        """The texts of all languages."""
        return [text for template in self._templates.values() for text in template.instructions()]


def _word_lists(text: str, count: int) -> tuple[frozenset[str], ...]:
    """A language's words of such messages, words around them, and their first words, as far as there are any."""
    lists = [frozenset(one.split()) for one in text.casefold().split("|", count - 1)]
    return (*lists, *[frozenset[str]()] * (count - len(lists)))


def _words(message: str) -> list[str]:
    """In lower case. A message in a script without spaces is one word up to its punctuation."""
    return re.findall(r"\w+", message.casefold())


@cache
def shipped() -> Mapping[str, Mapping[str, str]]:
    """The texts of the package's templates, by language."""
    folder = resources.files("rag_service.prompting") / "templates"
    return {
        Path(file.name).stem: tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSettings(f"RAG_PROMPT__FOLDER: {path} is not readable TOML: {error}") from error


def _checked(name: str, texts: Mapping[str, Any]) -> PromptTemplate:
    known = {field.name for field in fields(PromptTemplate)}
    wrong = sorted(set(texts) ^ known)
    if wrong:
        raise InvalidSettings(f"the prompt template {name} lacks, or must not have: {_names(wrong)}")
    try:
        return PromptTemplate(**{field: check(field, text) for field, text in texts.items()})
    except ValueError as error:
        raise InvalidSettings(f"prompt template {name}: {error}") from None


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
