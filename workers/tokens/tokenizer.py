"""The only way to tokenize: texts to ids and back, and the control pieces of a model's chat template.

Knows `tokenizers` and the files of a model folder; knows no torch, no prompts' meaning and no Redis. Content never
yields control tokens: `<|im_start|>` inside a document is the text it looks like.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from workers.tokens.call_form import CallForm
from workers.tokens.chat_template import ChatTemplate, Piece, Shape, read_chat_template, token_text
from workers.tokens.content_tokenizer import content_tokenizer
from workers.tokens.token_bytes import TokenBytes, UnsupportedTokenizer, read_token_bytes

__all__ = ["Encoding", "Piece", "Tokens", "UnsupportedTokenizer"]

CACHED_TOKENS = 4_000_000
"""Size of the cache of content encodings, in tokens."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Tokenized content. Shared between callers: do not change it.

    Attributes:
        ids: token ids.
        offsets: one (start, end) per id, in code points of the content. Ids that share one character repeat its range.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]


class Tokens:
    """The tokenizer of one model. Safe to use from several threads.

    Attributes:
        hash: identifies the tokenizer and its template; equal hashes give equal ids.
        eos_ids: the ids that end an answer.
        append_only: whether a session's prompt only grows under this model's template.
        strips_content: whether the template removes white space around contents.
        vocab_size: number of ids, control tokens included.
    """

    def __init__(
        self,
        tokenizer: Mapping[str, Any],
        *,
        template: ChatTemplate | None = None,
        eos_ids: Iterable[int] = (),
    ) -> None:
        """Set up from a parsed tokenizer.json.

        Raises:
            UnsupportedTokenizer: its decoder is not supported, or control tokens cannot be kept out of content.
        """
        source = json.dumps(tokenizer, sort_keys=True)
        self._full = Tokenizer.from_str(json.dumps({**tokenizer, "truncation": None, "padding": None}))
        self._content = content_tokenizer(tokenizer)
        added = {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens") or () if not entry["special"]}
        self._written = dict(sorted(added.items(), key=lambda entry: -len(entry[0])))
        self._bytes: TokenBytes = read_token_bytes(tokenizer)
        self._template = template
        self._cache: OrderedDict[bytes, Encoding] = OrderedDict()
        self._cached_tokens = 0
        self._lock = threading.Lock()
        self.vocab_size = len(self._bytes.table)
        self.append_only = template is not None and template.append_only
        self.strips_content = template is not None and template.strips_content
        self.eos_ids = frozenset(eos_ids) | self._turn_ends()
        self.hash = hashlib.sha256(f"{source}\0{template.source if template else ''}".encode()).hexdigest()[:32]

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """Read the tokenizer of a model folder.

        Reads tokenizer.json and, if present, tokenizer_config.json, chat_template.jinja and generation_config.json.

        Raises:
            FileNotFoundError: there is no tokenizer.json.
            UnsupportedTokenizer: see the constructor.
        """
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise FileNotFoundError(
                f"{file} is missing; point to a folder with a model and its tokenizer.json, "
                "or run `rag models pull` for a named model"
            )
        tokenizer = json.loads(file.read_text(encoding="utf-8"))
        config = _read_json(folder / "tokenizer_config.json")
        ids = {added["content"]: added["id"] for added in tokenizer.get("added_tokens") or ()}
        eos: set[int] = set()
        for name in ("config.json", "generation_config.json"):
            value = _read_json(folder / name).get("eos_token_id")
            eos.update(value if isinstance(value, list) else [] if value is None else [value])
        text = token_text(config.get("eos_token"))
        if text in ids:
            eos.add(ids[text])
        return cls(tokenizer, template=read_chat_template(folder, config), eos_ids=eos)

    def encode_content(self, text: str) -> Encoding:
        """Tokenize content. Control tokens in it are not recognised, and no token is added in front.

        Encodings are cached by the content's hash. Lone surrogates count as question marks.
        """
        data = text.encode("utf-8", "replace")
        key = hashlib.sha256(data).digest()
        with self._lock:
            if (cached := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                return cached
        encoded = self._content.encode(data.decode(), add_special_tokens=False)
        encoding = Encoding(list(encoded.ids), [(start, end) for start, end in encoded.offsets])
        with self._lock:
            if key not in self._cache:
                self._cache[key] = encoding
                self._cached_tokens += len(encoding.ids)
            while self._cached_tokens > CACHED_TOKENS and len(self._cache) > 1:
                self._cached_tokens -= len(self._cache.popitem(last=False)[1].ids)
        return encoding

    def encode_template(self, text: str) -> list[int]:
        """Tokenize control text. Control tokens are recognised, and none is added in front."""
        return list(self._full.encode(text, add_special_tokens=False).ids)

    def encode_written(self, text: str) -> list[int]:
        """Tokenize a text as the model writes it: added tokens that are text, such as <tool_call>, are recognised;
        control tokens are not."""
        if not any(token in text for token in self._written):
            return list(self.encode_content(text).ids)
        ids: list[int] = []
        for part in re.split(f"({'|'.join(map(re.escape, self._written))})", text):
            ids += [self._written[part]] if part in self._written else self.encode_content(part).ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. Control tokens and unknown ids give nothing, broken UTF-8 gives U+FFFD."""
        return self._bytes.join(ids).decode("utf-8", "replace")

    def decode_complete(self, ids: Iterable[int]) -> str:
        """As `decode`, without an unfinished character at the end: text that no further id can change."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self._bytes.join(ids))

    def token_bytes(self, token: int) -> bytes:
        """Bytes that one id adds to a text; b"" for control tokens and unknown ids."""
        return self._bytes.of(token)

    @property
    def strips_space(self) -> bool:
        """Whether one space at the very start of a decoded text is dropped."""
        return self._bytes.strips_space

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    def template_pieces(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[Piece]:
        """Split the chat template's rendering into control text (str) and content slots (int, the message's index).

        Only the messages' roles matter. The prompt's ids are those of the control pieces (`encode_template`) and of the
        contents (`encode_content`), in this order. A system prompt that the template adds by itself is part of a
        control piece.

        Raises:
            UnsupportedTokenizer: the model has no chat template, or the template rejects these roles.
        """
        if self._template is None:
            raise UnsupportedTokenizer(
                "this model has no chat template, so it cannot hold a conversation; choose an instruct or chat model"
            )
        return self._template.pieces([message["role"] for message in messages], add_generation_prompt)

    @property
    def call_form(self) -> CallForm | None:
        """The model's form of tool calls, between <tool_call> and </tool_call>; None if its template has no tools."""
        return None if self._template is None else self._template.call_form

    def tool_pieces(self, shapes: Sequence[Shape], tools: int) -> list[Piece]:
        """`template_pieces` of messages with tools; slots are numbered as `ChatTemplate.tool_pieces` does.

        Raises:
            UnsupportedTokenizer: the template has no tools, or rejects these messages.
        """
        if self._template is None or self._template.call_form is None:
            raise UnsupportedTokenizer("this model's chat template has no tools; choose a model whose template has")
        return self._template.tool_pieces(shapes, tools, True)

    def _turn_ends(self) -> frozenset[int]:
        """The control token that the template writes right after an assistant's content."""
        if self._template is None:
            return frozenset()
        pieces = self._template.pieces(["user", "assistant"], False)
        after = pieces[pieces.index(1) + 1 :]
        ids = self.encode_template(after[0]) if after and isinstance(after[0], str) else []
        return frozenset(ids[:1]) if ids and not self.token_bytes(ids[0]) else frozenset()


def _read_json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
