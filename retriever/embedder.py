"""Text → vectors. `Embedder` is what the rest of the package expects of any embedding model.

`SentenceTransformerEmbedder` reads a local folder; it downloads nothing and runs no code from the folder.
`ProviderEmbedder` sends texts to a provider that LangChain knows. Heavy imports and weights wait for the first use, so
creating one costs nothing.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import regex
from numpy.typing import NDArray

from retriever.errors import EmbedderUnavailable
from retriever.prefixes import Prefixes

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

KNOWN_CHARS = 20_000
"""Characters of a text by which an embedder says how much of it it knows."""
LEAST_TOKENS = 16
"""Fewest tokens of a passage that an embedder must read."""
_LETTER = regex.compile(r"\p{L}")
_SIGN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
"""Letters that may be words."""

Vectors = NDArray[np.float32]
"""float32, one row a text (or one vector), of unit length."""


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors of unit length; safe to call from several threads."""

    @property
    def name(self) -> str:
        """Names the model and its prefixes: a collection rejects an embedder of another name."""

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        """float32 [n, dimension], rows of length 1, for texts to search."""

    def embed_query(self, text: str, /) -> Vectors:
        """float32 [dimension], of length 1, for a question."""


@runtime_checkable
class ShowsTokens(Protocol):
    """An embedder whose tokens are at hand."""

    @property
    def most_tokens(self) -> int | None:
        """Tokens of a passage that it reads, control tokens and prefix apart; None if it reads them all."""

    def tokens(self, text: str, /) -> int:
        """The number of a text's tokens."""

    def known(self, text: str, /) -> float:
        """0 to 1; the share of characters in words that the model's vocabulary has more than single letters of."""


@runtime_checkable
class ShowsDtype(Protocol):
    """An embedder whose number format is at hand."""

    @property
    def dtype(self) -> str:
        """`float32`, `bfloat16` or `float16`. Vectors of one model are compatible in all of them."""


@runtime_checkable
class HadOtherNames(Protocol):
    """An embedder that earlier versions named otherwise."""

    @property
    def former_names(self) -> tuple[str, ...]:
        """Names in collections whose vectors are the same."""


def made(embedder: Embedder, name: str) -> bool:
    """Whether an embedder made the vectors of a collection that names its embedder so."""
    return name == embedder.name or (isinstance(embedder, HadOtherNames) and name in embedder.former_names)


def dtype_of(embedder: Embedder) -> str:
    """An embedder's number format; `float32`, that of its vectors, for one that cannot say."""
    return embedder.dtype if isinstance(embedder, ShowsDtype) else "float32"


def known_share(embedder: Embedder, text: str) -> float:
    """How much of a text an embedder knows; 1 for one that cannot say."""
    return embedder.known(text) if isinstance(embedder, ShowsTokens) else 1.0


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
        dimension = self._dimension_on_disk() if self._model is None else None
        if dimension is None:
            self.load()
            dimension = int(self._model.get_embedding_dimension())
        return dimension

    def _dimension_on_disk(self) -> int | None:
        """The dimension in the folder's files; None if the model's layers do not show it."""
        try:
            modules = [str(module["type"]).rsplit(".", 1)[-1] for module in self._json("modules.json")]
            if set(modules) <= {"Transformer", "Pooling", "Normalize"}:
                return int(self._json("1_Pooling/config.json")["word_embedding_dimension"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        return self._encode("encode_document", list(texts), self.prefixes.passage, None)

    def embed_query(self, text: str, /) -> Vectors:
        vector: Vectors = self._encode("encode_query", [text], self.prefixes.query, self.query_threads)[0]
        return vector

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
        self.load()
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        with self._lock, _threads(threads):  # the tokenizer underneath is not safe for several threads
            for batch in self._batches(texts):
                vectors[batch] = getattr(self._model, method)(
                    [texts[place] for place in batch],
                    prompt=prefix,
                    batch_size=len(batch),
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
        if self.dtype != "float32":  # the length is rounded too
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    def _batches(self, texts: list[str]) -> list[list[int]]:
        """The places of texts, those of about as many tokens together: a batch takes as long as its longest text."""
        order = list(range(len(texts)))
        if len(texts) > self.batch_size:
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


_PROVIDER_MODEL = re.compile(r"[a-z][a-z0-9_]*:\S+")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")
_OPENAI = {"check_embedding_ctx_length": False, "timeout": 30}  # send texts: servers of other models know no OpenAI ids
_PROVIDER_OPTIONS: dict[str, dict[str, Any]] = {"openai": _OPENAI, "azure_openai": _OPENAI}


class ProviderEmbedder:
    """`provider:model`, such as `openai:text-embedding-3-small` or `ollama:nomic-embed-text`, by LangChain.

    The provider's package reads the provider's own environment variables (`OPENAI_API_KEY`, `OPENAI_BASE_URL`, …).
    """

    def __init__(self, model: str, query_prefix: str = "", passage_prefix: str = "") -> None:
        self.model = model
        self.prefixes = Prefixes(query_prefix, passage_prefix)
        self.name = self.prefixes.named(model)

    def load(self) -> None:
        """Import the provider's package; nothing is sent. Raises EmbedderUnavailable."""
        _ = self._client

    @cached_property
    def dimension(self) -> int:
        """That of a first vector. Raises EmbedderUnavailable."""
        return len(self.embed_query("dimension"))

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        client = self._client
        return self._unit(lambda: client.embed_documents([self.prefixes.passage + text for text in texts]))

    def embed_query(self, text: str, /) -> Vectors:
        client = self._client
        vector: Vectors = self._unit(lambda: [client.embed_query(self.prefixes.query + text)])[0]
        return vector

    @cached_property
    def _client(self) -> Embeddings:
        from langchain.embeddings import init_embeddings

        try:
            return init_embeddings(self.model, **_PROVIDER_OPTIONS.get(self.model.partition(":")[0], {}))
        except Exception as error:  # a missing package (ImportError), an unknown provider, no API key
            raise EmbedderUnavailable(f"the embedding model {self.model} cannot be used: {error}") from error

    def _unit(self, embed: Callable[[], list[list[float]]]) -> Vectors:
        try:
            vectors: Vectors = np.array(embed(), dtype=np.float32)
        except Exception as error:  # each provider has its own
            provider = self.model.partition(":")[0]
            raise EmbedderUnavailable(
                f"{provider} gives no vectors of {self.model} ({type(error).__name__}: {error}); start its server, or "
                f"check its address and key in the environment ({provider.upper()}_…)"
            ) from error
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors


def names_provider(model: str) -> bool:
    """Whether a setting has the form `provider:model`."""
    return _PROVIDER_MODEL.fullmatch(model) is not None


def make_embedder(
    model: str,
    folder: Callable[[str], Path],
    device: str = "cpu",
    dtype: str = "float32",
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
) -> SentenceTransformerEmbedder | ProviderEmbedder:
    """The embedder of a setting: `provider:model`, or a name, path or hub id that `folder` turns into a model's folder.

    `device` and `dtype` are a folder's; a provider's are its own. The prefixes are what stands before each question and
    passage: where None, what the folder says, and nothing for a provider's model.
    """
    if names_provider(model):
        return ProviderEmbedder(model, query_prefix or "", passage_prefix or "")
    return SentenceTransformerEmbedder(
        folder(model),
        name=model if _HUB_ID.fullmatch(model) and not Path(model).is_dir() else None,
        device=device,
        dtype=dtype,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
    )
