"""Prompt ids of whole messages, as the service builds them from template pieces and contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.tokens.tokenizer import Tokens


def chat_ids(tokens: Tokens, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[int]:
    """Prompt ids of messages, each `{"role", "content"}`. Errors as `Tokens.template_pieces`."""
    ids: list[int] = []
    for piece in tokens.template_pieces(messages, add_generation_prompt):
        if isinstance(piece, str):
            ids += tokens.encode_template(piece)
        else:
            content = messages[piece]["content"]
            ids += tokens.encode_content(content.strip() if tokens.strips_content else content).ids
    return ids
