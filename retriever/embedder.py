"""Text → vectors. `Embedder` is what the rest of the package asks of any embedding model.

`SentenceTransformerEmbedder` knows sentence-transformers and a local folder; it downloads nothing and runs no code from
the folder. The heavy import and the weights wait for the first use, so that making one costs nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from retriever.errors import EmbedderUnavailable

Vectors = NDArray[np.float32]
"""float32, one row a text (or one vector), of unit length."""


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors of unit length; safe to call from several threads."""

    @property
    def name(self) -> str:
        """Names the model: a collection refuses an embedder of another name."""

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        """float32 [n, dimension], rows of length 1, for texts to be found."""

    def embed_query(self, text: str, /) -> Vectors:
        """float32 [dimension], of length 1, for a question."""


class SentenceTransformerEmbedder:
    """A sentence-transformers model in a local folder, such as all-MiniLM-L6-v2."""

    def __init__(self, folder: Path, *, name: str | None = None, device: str = "cpu", batch_size: int = 16) -> None:
        """`name` defaults to the folder's own name. Raises EmbedderUnavailable if the folder holds no model."""
        self.folder = Path(folder)
        if not (self.folder / "config.json").is_file():
            raise EmbedderUnavailable(
                f"{self.folder} holds no embedding model (no config.json): pull the model, or name another folder"
            )
        self.name = name or self.folder.resolve().name
        self.device = device
        self.batch_size = batch_size
        self._lock = threading.RLock()
        self._model: Any = None

    def load(self) -> None:
        """Load the weights now instead of at the first use. Raises EmbedderUnavailable."""
        with self._lock:
            if self._model is not None:
                return
            from sentence_transformers import SentenceTransformer

            try:
                self._model = SentenceTransformer(
                    str(self.folder),
                    device=self.device,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True},
                )
            except (OSError, ValueError, KeyError) as error:
                raise EmbedderUnavailable(
                    f"the embedding model in {self.folder} cannot be loaded: {error}; pull it again"
                ) from error

    @property
    def dimension(self) -> int:
        known = self._dimension_on_disk() if self._model is None else None
        if known is None:
            self.load()
            known = int(self._model.get_embedding_dimension())
        return known

    def _dimension_on_disk(self) -> int | None:
        """What the folder says, without loading the model; None if its layers do not show it."""
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
        return self._encode("encode_document", list(texts))

    def embed_query(self, text: str, /) -> Vectors:
        vector: Vectors = self._encode("encode_query", [text])[0]
        return vector

    def _encode(self, method: str, texts: list[str]) -> Vectors:
        self.load()
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with self._lock:  # the tokenizer underneath is not safe for several threads
            vectors = getattr(self._model, method)(
                texts,
                batch_size=self.batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)
