"""Chat: a benchmark item's messages as prompt ids. Knows the model's tokenizer; knows no model.

The service builds its prompts from segments. A benchmark's prompts are plain chats, rendered with the model's own
template; their segments are searched for in the rendered text.
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
        """Load the tokenizer of a model's folder."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(folder, trust_remote_code=False))

    def prompt_ids(self, item: Item, replies: Sequence[str]) -> list[int]:
        """Ids of the prompt of turn `len(replies)` (from 0): every message so far, with the model's replies."""
        ids: list[int] = self._tokenizer(self._rendered(item, replies), add_special_tokens=False)["input_ids"]
        return ids

    def segments(self, item: Item, replies: Sequence[str]) -> tuple[PromptSegment, ...]:
        """The same prompt's segments; a token belongs to the segment that its first character is in.

        Kinds are "template", "message", "passage", "edited" (the text under edit) and "answer" (an earlier reply).
        Empty if the tokenizer gives no character offsets.
        """
        if not getattr(self._tokenizer, "is_fast", False):
            return ()
        text = self._rendered(item, replies)
        kinds = ["template"] * (len(text) + 1)
        position = 0
        for turn, message in enumerate(item.messages()[: len(replies) + 1]):
            position = _mark(kinds, text, message, position, "message")
            inside = max(position - len(message), 0)
            if turn == 0:
                _mark(kinds, text, item.edited, inside, "edited")
                for passage in item.passages:
                    inside = _mark(kinds, text, passage, inside, "passage")
            if turn < len(replies):
                position = _mark(kinds, text, replies[turn], position, "answer")
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
        """The text of an answer, without control tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.strip()


def _mark(kinds: list[str], text: str, part: str, position: int, kind: str) -> int:
    """Mark the next occurrence of `part`. Returns its end, or `position` if a template changed the part."""
    start = text.find(part, position)
    if not part or start < 0:
        return position
    kinds[start : start + len(part)] = [kind] * len(part)
    return start + len(part)
