"""All collections of one place: of a data folder, or of a PostgreSQL database.

Knows names, tenants and who may see what; where and how collections are kept is the store's.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from retriever.collection import Collection
from retriever.embedded.stores import EmbeddedStores
from retriever.embedding.embedder import Embedder, dtype_of
from retriever.errors import CollectionExists, CollectionInUse, InvalidName, UnknownCollection
from retriever.open_collections import OpenCollections
from retriever.parsing.file_reader import ReadLimits
from retriever.search import fusion
from retriever.search.mentions import Mentions
from retriever.search.named import the_one
from retriever.search.reranking import Reranking
from retriever.stores.hidden import reindexed
from retriever.stores.protocol import Stores
from retriever.types import DEFAULT_TENANT, CollectionStats, Passage, SearchMode, SearchResult

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


def check_name(name: str) -> None:
    """Raises InvalidName."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidName(str(name))


class Library:
    """Collections by name; safe to use from several threads, and beside other processes on the same store."""

    def __init__(
        self,
        data_dir: Path,
        embedder: Embedder,
        *,
        limits: ReadLimits | None = None,
        open_collections: OpenCollections | None = None,
        stores: Stores | None = None,
        keep_originals: bool = False,
        reranking: Reranking | None = None,
    ) -> None:
        """`limits` bound the reading of each ingested file; `open_collections` may be shared with other libraries.

        `stores`: where the collections are instead of in `data_dir`; `retriever.postgres` opens a database.
        `keep_originals`: whether ingested files are stored with their documents. `reranking`: a reranker for all
        searches.
        """
        self._data_dir = Path(data_dir)
        self._stores = stores if stores is not None else EmbeddedStores(self._data_dir)
        self._embedder = embedder
        self._limits = limits
        self._open_collections = open_collections or OpenCollections()
        self._keep_originals = keep_originals
        self._reranking = reranking
        self._only: frozenset[str] | None = None

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    def of(self, tenant: str) -> Library:
        """The collections of one tenant, with the same embedder; closed with this library. Raises InvalidName."""
        if tenant == DEFAULT_TENANT:
            return self
        if not _NAME.match(tenant):
            raise InvalidName(tenant)
        return Library(
            self._data_dir,
            self._embedder,
            limits=self._limits,
            open_collections=self._open_collections,
            stores=self._stores.of(tenant),
            keep_originals=self._keep_originals,
            reranking=self._reranking,
        )

    def only(self, names: frozenset[str] | None) -> Library:
        """The same library restricted to these collections, also for creating; unrestricted if None."""
        if names is None:
            return self
        restricted = copy.copy(self)
        restricted._only = names
        return restricted

    def create(self, name: str, *, exist_ok: bool = False) -> Collection:
        """A new, empty collection; with `exist_ok` the existing one.

        Raises InvalidName, CollectionExists, and UnknownCollection for a name that is not among `only`.
        """
        self._check(name)
        if not self._shown(name):
            raise UnknownCollection(name, self.collections())
        embedder = self._embedder
        created = self._stores.create(name, embedder.name, embedder.dimension, dtype_of(embedder))
        if not created and not exist_ok:
            raise CollectionExists(name)
        return self.collection(name)

    def collection(self, name: str) -> Collection:
        """Raises InvalidName, UnknownCollection."""
        self._check(name)
        if not self._shown(name) or not self._stores.exists(name):
            raise UnknownCollection(name, self.collections())
        return self._open_collections.get(
            self._stores.key(name),
            lambda: Collection(
                self._stores.open(name),
                self._embedder,
                self._limits,
                self._keep_originals,
                self._stores.open(reindexed(name)),
                self._reranking,
            ),
        )

    def find(
        self,
        names: Sequence[str],
        question: str,
        top_k: int = 5,
        mode: SearchMode = "hybrid",
        filter: Mapping[str, Any] | None = None,
        *,
        candidates: Sequence[tuple[str, str]] = (),
        language: str = "en",
    ) -> SearchResult:
        """As `Collection.find`, over all the chunks of several collections. The question is embedded once.

        `names`: each once. `candidates`: (collection, chunk id), best first.
        Raises InvalidName, UnknownCollection, InvalidQuery, EmbedderMismatch, RerankerUnavailable.
        """
        question = fusion.checked(question, top_k, mode, filter)
        vector = cache(partial(self._embedder.embed_query, question))
        found = [
            self.collection(name).candidates(
                question, vector, mode, filter, [chunk for collection, chunk in candidates if collection == name]
            )
            for name in names
        ]
        return fusion.fused(found, question, top_k, language, self._reranking)

    def named(self, names: Sequence[str], words: str) -> list[Passage]:
        """All passages, in order, of the one document that the words name by its title; none if it is not one.

        Of several versions it is the newest. Raises InvalidName, UnknownCollection.
        """
        one = the_one([title for name in names for title in self.collection(name).titled(words)])
        return self.collection(one.collection).whole(one.document_id) if one else []

    def mentions(self, names: Sequence[str], words: str, filter: Mapping[str, Any] | None = None) -> Mentions:
        """All documents of some collections that mention `words`, those with the most such chunks first.

        The words must stand together; the last one may go on. If they stand together nowhere, the documents that have
        all of them in one chunk. Equal counts are ordered by document id and collection. The score of a passage is the
        number of its document's chunks. Raises InvalidName, UnknownCollection, InvalidQuery.
        """
        words = fusion.checked(words, 1, "lexical", filter)
        for together in (True, False):
            parts = [self.collection(name).mentions(words, together, filter) for name in names]
            found = [mention for part, _ in parts for mention in part]
            if found:
                break
        found.sort(key=lambda one: (-one.chunks, one.passage.document_id, one.passage.collection))
        ranked = [replace(one, passage=replace(one.passage, rank=n)) for n, one in enumerate(found, start=1)]
        return Mentions(ranked, sum(count for _, count in parts), together)

    def changed(self, passages: Sequence[tuple[str, str, str]]) -> list[bool]:
        """For each (collection, chunk id, text) of an earlier search whether its document no longer has the text.

        Of documents and collections that are gone, or not among `only`, all have changed.
        """
        gone = [True] * len(passages)
        for name in {collection for collection, _, _ in passages}:
            with contextlib.suppress(UnknownCollection, InvalidName):
                at = [n for n, passage in enumerate(passages) if passage[0] == name]
                for n, one in zip(at, self.collection(name).changed([passages[n][1:] for n in at]), strict=True):
                    gone[n] = one
        return gone

    def collections(self) -> list[str]:
        """The names, in order."""
        return sorted(name for name in self._stores.names() if _NAME.match(name) and self._shown(name))

    def stats(self) -> list[CollectionStats]:
        """Of every collection, by name; one that is deleted meanwhile is left out."""
        listed = []
        for name in self.collections():
            with contextlib.suppress(UnknownCollection):
                listed.append(self.collection(name).stats())
        return listed

    def rename(self, name: str, new: str) -> Collection:
        """Give a collection another name, in one step. What it has, and when it was created, stay as they are.

        Raises InvalidName, UnknownCollection (`new` too, if it is not among `only`), CollectionExists, and
        CollectionInUse while its index is being built anew.
        """
        self._check(name)
        self._check(new)
        for one in (name, new):
            if not self._shown(one):
                raise UnknownCollection(one, self.collections())
        if self._stores.exists(reindexed(name)):
            raise CollectionInUse(name)
        if not self._stores.rename(name, new):
            raise CollectionExists(new)
        self._open_collections.close(self._stores.key(name))
        return self.collection(new)

    def delete(self, name: str) -> None:
        """Remove a collection with all its documents. Raises InvalidName, UnknownCollection."""
        self._check(name)
        if not self._shown(name):
            raise UnknownCollection(name, self.collections())
        self._stores.delete(reindexed(name))
        if not self._stores.delete(name):
            raise UnknownCollection(name, self.collections())
        self._open_collections.close(self._stores.key(name))

    def close(self) -> None:
        """Close every open collection, including those of its tenants."""
        self._open_collections.close_all()
        self._stores.close()

    @staticmethod
    def _check(name: str) -> None:
        check_name(name)

    def _shown(self, name: str) -> bool:
        return self._only is None or name in self._only
