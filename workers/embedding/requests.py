"""What goes through Redis when a worker embeds texts for another process.

A request's body is a key that expires, so nobody embeds what nobody waits for any more; its id goes into a list for the
embedding model. The reply is a list of one element, which expires too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Literal

import numpy as np

from retriever.embedding.embedder import Vectors

Kind = Literal["query", "documents"]


@dataclass(frozen=True)
class EmbedRequest:
    kind: Kind
    texts: list[str]

    def dumps(self) -> str:
        return json.dumps({"kind": self.kind, "texts": self.texts})

    @classmethod
    def loads(cls, body: str) -> EmbedRequest:
        """Raises ValueError, KeyError or TypeError for anything else."""
        fields = json.loads(body)
        return cls(fields["kind"], fields["texts"])


@dataclass(frozen=True)
class EmbedReply:
    vectors: Vectors | None
    """float32 [texts, dimension]; None if it failed."""
    known: list[float]
    """How much of each text of a query the model knows, 0 to 1; empty for documents."""
    error: str = ""

    def dumps(self) -> str:
        if self.vectors is None:
            return json.dumps({"error": self.error})
        rows = base64.b64encode(np.ascontiguousarray(self.vectors, dtype="<f4").tobytes()).decode()
        return json.dumps({"rows": rows, "dimension": self.vectors.shape[1], "known": self.known})

    @classmethod
    def loads(cls, body: str) -> EmbedReply:
        fields = json.loads(body)
        if "error" in fields:
            return cls(None, [], fields["error"])
        rows = np.frombuffer(base64.b64decode(fields["rows"]), dtype="<f4").reshape(-1, fields["dimension"])
        return cls(rows.astype(np.float32), fields["known"])


def digest(embedder: str) -> str:
    """Stands for an embedder's name in a key."""
    return hashlib.sha256(embedder.encode()).hexdigest()[:16]
