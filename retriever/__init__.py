"""Documents in, passages out: loading, chunking, embedding, and search over SQLite and FAISS or PostgreSQL, and BM25.

Knows nothing of target models, HTTP or Redis. Names are imported on first use, so importing the package (as the process
that reads files does) loads neither FAISS nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from retriever.errors import (
    CollectionBusy,
    CollectionExists,
    CollectionInUse,
    CollectionMismatch,
    DiskFull,
    EmbedderMismatch,
    EmbedderUnavailable,
    InvalidName,
    InvalidQuery,
    LoadError,
    RerankerUnavailable,
    RetrieverError,
    StoreUnavailable,
    UnknownCollection,
    UnknownDocument,
    UnreadableDocument,
    UnsupportedFormat,
)
from retriever.types import (
    Chunk,
    CollectionStats,
    Document,
    DocumentInfo,
    IngestFailure,
    IngestReport,
    LoadedDocument,
    Passage,
    Progress,
    SearchMode,
    SearchResult,
    SourceDocument,
)

if TYPE_CHECKING:
    from retriever.collection import Collection
    from retriever.embedding.choice import make_embedder
    from retriever.embedding.embedder import Embedder
    from retriever.embedding.reranker import CrossEncoderReranker
    from retriever.embedding.sentence_transformer import SentenceTransformerEmbedder
    from retriever.library import Library
    from retriever.moving.copying import CopyReport, copy_collection
    from retriever.moving.reindexing import ReindexReport, cancel_reindex, reindex_collection
    from retriever.parsing.file_reader import FileReader, ReadLimits
    from retriever.parsing.formats import SUPPORTED, load_file
    from retriever.search.fusion import chunk_id
    from retriever.search.mentions import Mentions
    from retriever.search.reranking import Reranking
    from retriever.store_url import open_stores

__all__ = [
    "SUPPORTED",
    "Chunk",
    "Collection",
    "CollectionBusy",
    "CollectionExists",
    "CollectionInUse",
    "CollectionMismatch",
    "CollectionStats",
    "CopyReport",
    "CrossEncoderReranker",
    "DiskFull",
    "Document",
    "DocumentInfo",
    "Embedder",
    "EmbedderMismatch",
    "EmbedderUnavailable",
    "FileReader",
    "IngestFailure",
    "IngestReport",
    "InvalidName",
    "InvalidQuery",
    "Library",
    "LoadError",
    "LoadedDocument",
    "Mentions",
    "Passage",
    "Progress",
    "ReadLimits",
    "ReindexReport",
    "RerankerUnavailable",
    "Reranking",
    "RetrieverError",
    "SearchMode",
    "SearchResult",
    "SentenceTransformerEmbedder",
    "SourceDocument",
    "StoreUnavailable",
    "UnknownCollection",
    "UnknownDocument",
    "UnreadableDocument",
    "UnsupportedFormat",
    "cancel_reindex",
    "chunk_id",
    "copy_collection",
    "load_file",
    "make_embedder",
    "open_stores",
    "reindex_collection",
]

_HOMES = {
    "Collection": "collection",
    "Embedder": "embedding.embedder",
    "SentenceTransformerEmbedder": "embedding.sentence_transformer",
    "make_embedder": "embedding.choice",
    "Library": "library",
    "CopyReport": "moving.copying",
    "copy_collection": "moving.copying",
    "ReindexReport": "moving.reindexing",
    "cancel_reindex": "moving.reindexing",
    "reindex_collection": "moving.reindexing",
    "Mentions": "search.mentions",
    "CrossEncoderReranker": "embedding.reranker",
    "Reranking": "search.reranking",
    "open_stores": "store_url",
    "SUPPORTED": "parsing.formats",
    "load_file": "parsing.formats",
    "FileReader": "parsing.file_reader",
    "ReadLimits": "parsing.file_reader",
    "chunk_id": "search.fusion",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
