"""What the rest of the package expects of any embedding model: text → vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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


@runtime_checkable
class ShowsKnown(Protocol):
    """An embedder that can say how much of a text it knows."""

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
    return embedder.known(text) if isinstance(embedder, ShowsKnown) else 1.0
