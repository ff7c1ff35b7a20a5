"""A sentence-transformers model in a local folder.

It downloads nothing and runs no code from the folder. Heavy imports and weights wait for the first use, so creating one
costs nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import regex

from retriever.embedding.embedder import Vectors
from retriever.embedding.prefixes import Prefixes
from retriever.errors import EmbedderUnavailable

KNOWN_CHARS = 20_000
"""Characters of a text by which an embedder says how much of it it knows."""
PATIENCE_S = 1.0
"""Longest that a batch of passages waits for questions."""
LEAST_TOKENS = 16
"""Fewest tokens of a passage that an embedder must read."""
_LETTER = regex.compile(r"\p{L}")
_SIGN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
"""Letters that may be words."""


class SentenceTransformerEmbedder:
    """A sentence-transformers model in a local folder, such as all-MiniLM-L6-v2."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        batch_size: int = 16,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
    ) -> None:
        """Raises EmbedderUnavailable if the folder holds no model.

        Args:
            name: the model's, without prefixes; the folder's own name by default.
            device: `cpu`, `cuda` or `cuda:N`.
            dtype: number format of the weights, `float32` or `bfloat16`; vectors are float32 of unit length in both.
            query_prefix, passage_prefix: what stands before each question and passage; None takes what the folder says.
        """
        self.folder = Path(folder)
        if not (self.folder / "config.json").is_file():
            raise EmbedderUnavailable(
                f"{self.folder} holds no embedding model (no config.json): pull the model, or name another folder"
            )
        own = self.folder.resolve().name
        self.prefixes = Prefixes.of_folder(self.folder).chosen(query_prefix, passage_prefix)
        self.name = self.prefixes.named(name or own)
        before = Prefixes.of_earlier_versions(self.folder)
        self.former_names = (own,) if self.prefixes == before and own != self.name else ()
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size
        self.query_threads: int | None = None
        """Threads of torch that embed a question; None: as many as embed passages."""
        self._lock = threading.RLock()
        self._questions = 0
        """Those that wait for the lock or have it."""
        self._no_questions = threading.Condition()
        self._model: Any = None

    def load(self) -> None:
        """Load the weights now instead of at the first use. Raises EmbedderUnavailable."""
        if self._model is None:  # else nobody waits for texts that are being embedded
            with self._lock:
                if self._model is None:
                    self._model = self._read()

    def _read(self) -> Any:
        check_device(self.device)
        import torch
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(
                str(self.folder),
                device=self.device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": getattr(torch, self.dtype)},
            )
        except (OSError, ValueError, KeyError) as error:
            raise EmbedderUnavailable(
                f"the embedding model in {self.folder} cannot be loaded: {error}; pull it again"
            ) from error

    @property
    def dimension(self) -> int:
        dimension = self.dimension_on_disk() if self._model is None else None
        if dimension is None:
            self.load()
            dimension = int(self._model.get_embedding_dimension())
        return dimension

    def dimension_on_disk(self) -> int | None:
        """The dimension in the folder's files; None if the model's layers do not show it."""
        try:
            modules = [str(module["type"]).rsplit(".", 1)[-1] for module in self._json("modules.json")]
            if set(modules) <= {"Transformer", "Pooling", "Normalize"}:
                pooling = self._json("1_Pooling/config.json")  # version 5 has another name for it
                return int(pooling.get("embedding_dimension") or pooling["word_embedding_dimension"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        self.load()
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for batch in self._batches(list(texts)):
            with self._no_questions:
                self._no_questions.wait_for(lambda: not self._questions, PATIENCE_S)
            vectors[batch] = self._encode("encode_document", [texts[n] for n in batch], self.prefixes.passage, None)
        return vectors

    def embed_query(self, text: str, /) -> Vectors:
        self.load()
        with self._a_question():
            vector: Vectors = self._encode("encode_query", [text], self.prefixes.query, self.query_threads)[0]
        return vector

    @contextmanager
    def _a_question(self) -> Iterator[None]:
        """Passages wait meanwhile: somebody waits for this vector, and they are many."""
        with self._no_questions:
            self._questions += 1
        try:
            yield
        finally:
            with self._no_questions:
                self._questions -= 1
                self._no_questions.notify_all()

    @cached_property
    def most_tokens(self) -> int | None:
        self.load()
        most = self._model.max_seq_length
        if most is None:
            return None
        left = int(most) - int(self._model.tokenizer.num_special_tokens_to_add()) - self.tokens(self.prefixes.passage)
        if left < LEAST_TOKENS:
            raise EmbedderUnavailable(
                f"the passage prefix leaves {max(left, 0)} of the {most} tokens that {self.folder} reads to a passage; "
                "shorten RAG_EMBEDDING_PASSAGE_PREFIX"
            )
        return left

    def tokens(self, text: str, /) -> int:
        self.load()
        with self._lock:
            return len(self._model.tokenizer.encode(text, add_special_tokens=False, truncation=False, verbose=False))

    def known(self, text: str, /) -> float:
        self.load()
        tokenizer = self._model.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            return 1.0  # its tokens have no place in the text
        with self._lock:
            encoded = tokenizer(
                text[:KNOWN_CHARS],
                add_special_tokens=False,
                truncation=False,
                return_offsets_mapping=True,
                verbose=False,
            )
        whole = known = 0
        for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            piece = text[start:end].strip()
            whole += len(piece)
            if token != tokenizer.unk_token_id and not (_LETTER.fullmatch(piece) and not _SIGN.fullmatch(piece)):
                known += len(piece)
        return known / whole if whole else 1.0

    def _encode(self, method: str, texts: list[str], prefix: str, threads: int | None) -> Vectors:
        """The vectors of one batch."""
        with self._lock, _threads(threads):  # the tokenizer underneath is not safe for several threads
            encoded = getattr(self._model, method)(
                texts,
                prompt=prefix,
                batch_size=len(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        vectors: Vectors = np.asarray(encoded, dtype=np.float32)
        if self.dtype != "float32":  # the length is rounded too
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    def _batches(self, texts: list[str]) -> list[list[int]]:
        """The places of texts, those of about as many tokens together: a batch takes as long as its longest text."""
        order = list(range(len(texts)))
        if len(texts) > self.batch_size:
            with self._lock:
                encoded = self._model.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
            most = self._model.max_seq_length or max(map(len, encoded))
            order.sort(key=lambda place: -min(len(encoded[place]), most))
        return [order[first : first + self.batch_size] for first in range(0, len(order), self.batch_size)]


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads meanwhile; None changes nothing."""
    import torch

    if count is None:
        yield
        return
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def check_device(device: str) -> None:
    """Raises EmbedderUnavailable for a GPU that is not there."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= gpus:
        raise EmbedderUnavailable(
            f"the embedding device {device} is not there: torch finds {gpus} GPUs. Set RAG_EMBEDDING_DEVICE to cpu or "
            "auto, or install torch with CUDA"
        )
