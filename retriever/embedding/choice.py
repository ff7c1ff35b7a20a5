"""The embedding model that a setting names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from retriever.embedding.provider import ProviderEmbedder
from retriever.embedding.provider_name import names_provider
from retriever.embedding.sentence_transformer import SentenceTransformerEmbedder

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")


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
