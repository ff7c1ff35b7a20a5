"""What an embedding model wants before a question and before a passage, such as `query: ` and `passage: `.

Knows where a model's folder says it. The vectors of a collection depend on them, so they are part of the name by which
a collection knows its embedder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PASSAGE = ("document", "passage", "corpus")
"""What models call the prefix of texts to search, in the order in which sentence-transformers looks for it."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The text before each question and before each passage; "" for none."""

    query: str = ""
    passage: str = ""

    @classmethod
    def of_folder(cls, folder: Path) -> Prefixes:
        """Those that a sentence-transformers model names in its configuration (`prompts`)."""
        prompts = _prompts(folder)
        return cls(prompts.get("query", ""), next((prompts[name] for name in _PASSAGE if prompts.get(name)), ""))

    @classmethod
    def of_earlier_versions(cls, folder: Path) -> Prefixes:
        """Those that earlier versions used: they knew no other name than `document` for a passage's."""
        prompts = _prompts(folder)
        return cls(prompts.get("query", ""), prompts.get("document", ""))

    def chosen(self, query: str | None, passage: str | None) -> Prefixes:
        """The same with others in their place; None keeps one."""
        return Prefixes(self.query if query is None else query, self.passage if passage is None else passage)

    def named(self, model: str) -> str:
        """The name of a model with them: `e5 with "query: " and "passage: "`; its own if there are none."""
        if self == Prefixes():
            return model
        query, passage = (json.dumps(prefix, ensure_ascii=False) for prefix in (self.query, self.passage))
        return f"{model} with {query} and {passage}"


def _prompts(folder: Path) -> dict[str, str]:
    try:
        config: Any = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        return {str(name): text for name, text in config["prompts"].items() if isinstance(text, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
