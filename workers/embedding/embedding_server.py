"""A thread of a worker that embeds texts for processes without torch (`WorkerEmbedder`)."""

from __future__ import annotations

import logging
import threading

import numpy as np
import redis.exceptions

from decoder.openmp import give_back_threads
from retriever import RetrieverError
from retriever.embedding.embedder import Embedder, known_share
from workers.broker import keys
from workers.broker.app import RedisClient
from workers.embedding.requests import EmbedReply, EmbedRequest, digest

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Seconds of waiting for a request in one call of Redis; a stop waits as long."""
PAUSE_S = 1.0
"""Seconds between two tries while Redis is away."""
REPLY_MS = 10_000


class EmbeddingServer:
    """Takes one request after the other, as a model embeds one batch at a time.

    Args:
        client: from `make_redis`; its timeout must be longer than `LOOK_S`.
        embedder: the worker's, loaded.
    """

    def __init__(self, client: RedisClient, embedder: Embedder) -> None:
        self._redis = client
        self._embedder = embedder
        self._queue = keys.embed_queue(digest(embedder.name))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the request at hand. Safe to call more than once, and before `start`."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._next()
            except redis.exceptions.RedisError as error:
                log.warning("no requests to embed: %s", error)
                self._stopped.wait(PAUSE_S)
            except Exception:
                log.exception("a request to embed failed")

    def _next(self) -> None:
        found = self._redis.blpop([self._queue], timeout=LOOK_S)
        body = None if found is None else self._redis.getdel(keys.embed_request(found[1]))
        if found is None or body is None:  # nobody waits for it any more
            return
        reply, answer = keys.embed_reply(found[1]), self._answer(body)
        give_back_threads()  # before the answer begins for which this was asked
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.rpush(reply, answer.dumps())
            pipe.pexpire(reply, REPLY_MS)
            pipe.execute()

    def _answer(self, body: str) -> EmbedReply:
        try:
            request = EmbedRequest.loads(body)
            if request.kind == "documents":
                return EmbedReply(self._embedder.embed_documents(request.texts), [])
            vectors = np.stack([self._embedder.embed_query(text) for text in request.texts])
            return EmbedReply(vectors, [known_share(self._embedder, text) for text in request.texts])
        except RetrieverError as error:
            return EmbedReply(None, [], str(error))
        except Exception as error:
            log.exception("texts could not be embedded")
            return EmbedReply(None, [], f"{type(error).__name__}; the worker's log has the details")
