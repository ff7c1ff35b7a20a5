"""Vectors as bytes: how a collection keeps them, in half precision unless an earlier version began it.

A cosine of unit vectors moves by less than 0.0005 when one of them is rounded to float16, and the file needs half the
room. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from retriever.embedding.embedder import Vectors

VectorDtype = Literal["float16", "float32"]
NEW: VectorDtype = "float16"
"""Of collections that are created now; those of layouts 1 and 2 have float32 and keep it."""
_FORMATS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}


def to_bytes(vector: Vectors, dtype: str) -> bytes:
    """A vector in a collection's number format, little endian."""
    return np.asarray(vector, dtype=_FORMATS[dtype]).tobytes()


def as_kept(blob: bytes, dtype: str) -> Vectors:
    """A stored vector's own numbers, float32 [dimension]; `to_bytes` gives the same bytes again."""
    return np.frombuffer(blob, dtype=_FORMATS[dtype]).astype(np.float32)


def from_bytes(blobs: Sequence[bytes], dtype: str, dimension: int) -> Vectors:
    """Stored vectors as float32 [n, dimension], rounded ones brought back to length 1."""
    stored: NDArray[Any] = np.frombuffer(b"".join(blobs), dtype=_FORMATS[dtype]).reshape(len(blobs), dimension)
    vectors: Vectors = stored.astype(np.float32)
    if dtype == "float16":
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return vectors
