"""A tokenizer that cannot produce control tokens, built from one that can.

Knows the JSON form of tokenizers; knows no prompts. Removing the added tokens is not enough: they are also entries of
the vocabulary, which some models look up whole. So they are removed from both.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from workers.tokens.token_bytes import UnsupportedTokenizer


def content_tokenizer(tokenizer: Mapping[str, Any]) -> Tokenizer:
    """Build the content tokenizer of a parsed tokenizer.json.

    It has no added tokens, adds no space in front (content follows control text, it does not begin a text), and adds no
    ids. Its ids are those of the full tokenizer.

    Raises:
        UnsupportedTokenizer: content that spells a control token would still produce it.
    """
    added = tokenizer.get("added_tokens") or []
    model = copy.copy(tokenizer["model"])
    model["vocab"], merges = _without(model, {token["content"] for token in added})
    if merges is not None:
        model["merges"] = merges
    source = {
        **tokenizer,
        "added_tokens": [],
        "model": model,
        "normalizer": _without_prefix(tokenizer.get("normalizer")),
        "pre_tokenizer": _without_prefix(tokenizer.get("pre_tokenizer")),
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }
    built = Tokenizer.from_str(json.dumps(source))
    for token in added:
        if token["special"] and not _is_unknown(token, model) and token["id"] in built.encode(token["content"]).ids:
            raise UnsupportedTokenizer(
                f"the control token {token['content']!r} cannot be kept out of document text with this tokenizer; "
                "use another model"
            )
    return built


def _without(model: Mapping[str, Any], contents: set[str]) -> tuple[Any, list[Any] | None]:
    """Vocabulary and merges without the added tokens. Single letters stay: content may need them."""
    removed = {content for content in contents if len(content) > 1 and content != model.get("unk_token")}
    vocab = model["vocab"]
    if isinstance(vocab, list):  # Unigram: positions are ids, so entries are renamed to what no text can spell
        unknown = model.get("unk_id")
        entries = [
            [f"\ue0f0{token}\ue0f1", -1e4] if piece in removed and token != unknown else [piece, score]
            for token, (piece, score) in enumerate(vocab)
        ]
        return entries, None
    merges = model.get("merges")
    if merges is not None:
        merges = [merge for merge in merges if not _touches(merge, removed)]
    return {piece: token for piece, token in vocab.items() if piece not in removed}, merges


def _touches(merge: Any, removed: set[str]) -> bool:
    first, second = merge.split(" ", 1) if isinstance(merge, str) else merge
    return first in removed or second in removed or first + second in removed


def _is_unknown(token: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    return bool(token["content"] == model.get("unk_token") or token["id"] == model.get("unk_id"))


def _without_prefix(part: Any) -> Any:
    """The same normalizer or pre-tokenizer, without adding a space at the start."""
    if not isinstance(part, dict):
        return part
    part = dict(part)
    for name in ("normalizers", "pretokenizers"):
        if name in part:
            part[name] = [step for step in map(_without_prefix, part[name]) if step is not None]
    if part["type"] == "Prepend":
        return None
    if part["type"] == "Metaspace":
        part["prepend_scheme"] = "never"
    if part["type"] == "ByteLevel":
        part["add_prefix_space"] = False
    return part
