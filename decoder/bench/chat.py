"""Chat: a benchmark item's messages as prompt ids. Knows the model's tokenizer; knows no model.

The prompts of a product are built from segments elsewhere; a benchmark's are plain chats, rendered with the template
that comes with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decoder.bench.prompts import BenchError, Item


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
        messages: list[dict[str, str]] = []
        for turn, message in enumerate(item.messages()[: len(replies) + 1]):
            messages.append({"role": "user", "content": message})
            if turn < len(replies):
                messages.append({"role": "assistant", "content": replies[turn]})
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """The text of an answer, control tokens left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.strip()
