"""An embedding model of a provider that LangChain knows. Its package is imported at the first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retriever.embedding.embedder import Vectors
from retriever.embedding.prefixes import Prefixes
from retriever.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

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
