"""An embedding model whose texts workers embed, so that this process needs no torch and no weights."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from retriever.embedding.embedder import Vectors
from retriever.embedding.sentence_transformer import SentenceTransformerEmbedder
from retriever.errors import EmbedderUnavailable
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.live_workers import live_workers
from workers.embedding.requests import EmbedReply, EmbedRequest, Kind, digest
from workers.errors import unavailable

PATIENCE_S = 5.0
"""Seconds after which a question is sent again: a worker may have died over it."""
TRIES = 3
PASSAGES_PATIENCE = 6
"""How many times as long a request with passages may take: on a processor, a large model needs seconds for each."""
BATCH = 8
"""Most passages of one request: a question that comes meanwhile waits for them."""
REMEMBERED = 256


class WorkerEmbedder:
    """Asks whichever worker is idle; safe to call from several threads.

    Args:
        model: the same model as the workers', of which only the small files are read here.
        redis_url: the workers' Redis.
        patience_s: seconds after which a question is sent again, at most `TRIES` times in all.
    """

    def __init__(self, model: SentenceTransformerEmbedder, redis_url: str, patience_s: float = PATIENCE_S) -> None:
        self.name = model.name
        self.former_names = model.former_names
        self.dtype = model.dtype
        self._model = model
        self._patience_s = patience_s
        self._redis = make_redis(redis_url, timeout_s=PASSAGES_PATIENCE * patience_s + 2)
        self._known: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        found = self._model.dimension_on_disk()
        return len(self.embed_query("dimension")) if found is None else found

    def embed_query(self, text: str, /) -> Vectors:
        """Raises EmbedderUnavailable if no worker has this model or answers in time, QueueUnavailable without Redis."""
        vectors, known = self._asked("query", [text])
        with self._lock:
            self._known[text] = known[0]
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        vector: Vectors = vectors[0]
        return vector

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        """Raises as `embed_query`."""
        parts = [self._asked("documents", list(texts[n : n + BATCH]))[0] for n in range(0, len(texts), BATCH)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), dtype=np.float32)

    def known(self, text: str, /) -> float:
        """How much of a text the model knows; the worker that embedded a question said so. Raises as `embed_query`."""
        with self._lock:
            found = self._known.get(text)
        return self._asked("query", [text])[1][0] if found is None else found

    def _asked(self, kind: Kind, texts: list[str]) -> tuple[Vectors, list[float]]:
        with unavailable():
            if not any(worker.get("embedder") == self.name for worker in live_workers(self._redis)):
                raise EmbedderUnavailable(
                    f"no worker that embeds with {self.name} is running; start one (`rag worker`), with the same "
                    "RAG_EMBEDDING_MODEL and prefixes as the API, or set RAG_EMBEDDING_DEVICE to cpu there"
                )
            request = EmbedRequest(kind, texts).dumps()
            patience_s = self._patience_s * (1 if kind == "query" else PASSAGES_PATIENCE)
            for _ in range(TRIES):
                reply = self._once(request, patience_s)
                if reply is None:
                    continue
                if reply.vectors is None:
                    raise EmbedderUnavailable(f"a worker could not embed this: {reply.error}")
                return reply.vectors, reply.known
        raise EmbedderUnavailable(
            f"no worker has embedded this within {TRIES * patience_s:.0f} s; try again, or start more workers"
        )

    def _once(self, request: str, patience_s: float) -> EmbedReply | None:
        asked = uuid.uuid4().hex
        queue, body, replies = keys.embed_queue(digest(self.name)), keys.embed_request(asked), keys.embed_reply(asked)
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(body, request, px=int(1000 * patience_s))
            pipe.rpush(queue, asked)
            pipe.pexpire(queue, int(2000 * patience_s))
            pipe.execute()
        found = self._redis.blpop([replies], timeout=patience_s)
        return None if found is None else EmbedReply.loads(found[1])
