"""Chat: a benchmark item's messages as prompt ids. Knows the model's tokenizer; knows no model.

The prompts of a product are built from segments elsewhere; a benchmark's are plain chats, rendered with the template
that comes with the model, and their segments are found in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from decoder.recording.prompts import BenchError, Item
from decoder.sequence import PromptSegment


class Chat:
    """Renders chats with a transformers tokenizer that has a chat template."""

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise BenchError("this model's tokenizer has no chat template; benchmark an instruction-tuned model")
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path) -> Chat:
        """The tokenizer that lies in a model's folder."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(folder, trust_remote_code=False))

    def prompt_ids(self, item: Item, replies: Sequence[str]) -> list[int]:
        """Ids of turn `len(replies)` (from 0): every message so far, the model's replies between them."""
        ids: list[int] = self._tokenizer(self._rendered(item, replies), add_special_tokens=False)["input_ids"]
        return ids

    def segments(self, item: Item, replies: Sequence[str]) -> tuple[PromptSegment, ...]:
        """The same prompt's parts, by where each token begins: "template", "message", "passage", "edited" (the text
        under edit), "answer" (an earlier reply). Empty where the tokenizer does not say where its tokens lie."""
        if not getattr(self._tokenizer, "is_fast", False):
            return ()
        text = self._rendered(item, replies)
        kinds = ["template"] * (len(text) + 1)
        at = 0
        for turn, message in enumerate(item.messages()[: len(replies) + 1]):
            at = _mark(kinds, text, message, at, "message")
            inside = max(at - len(message), 0)
            if turn == 0:
                _mark(kinds, text, item.edited, inside, "edited")
                for passage in item.passages:
                    inside = _mark(kinds, text, passage, inside, "passage")
            if turn < len(replies):
                at = _mark(kinds, text, replies[turn], at, "answer")
        offsets = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return tuple(
            PromptSegment(kind, sum(1 for _ in run)) for kind, run in groupby(kinds[start] for start, _ in offsets)
        )

    def _rendered(self, item: Item, replies: Sequence[str]) -> str:
        messages: list[dict[str, str]] = []
        for turn, message in enumerate(item.messages()[: len(replies) + 1]):
            messages.append({"role": "user", "content": message})
            if turn < len(replies):
                messages.append({"role": "assistant", "content": replies[turn]})
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    def text(self, ids: Sequence[int]) -> str:
        """The text of an answer, control tokens left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.strip()


def _mark(kinds: list[str], text: str, part: str, at: int, kind: str) -> int:
    """Mark where `part` stands next; returns the place behind it, or `at` where a template changed it."""
    found = text.find(part, at)
    if not part or found < 0:
        return at
    kinds[found : found + len(part)] = [kind] * len(part)
    return found + len(part)
