"""Where the files of the configured models are, for the parts that need no weights: tokenizer, window, reranker.

Knows the layout of the models folder; downloads nothing and loads no model. Commands look for folders with it, so what
embeds and reranks is imported on use.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings

if TYPE_CHECKING:
    from retriever import Embedder, Reranking


def models_of(settings: Settings) -> tuple[str, ...]:
    """The names of the settings whose models the service needs; with a model server, it loads no target model."""
    own = settings.engine == "decoder"
    return (*(["model"] if own else []), "embedding_model", "reranker", *(["draft_model"] if own else []))


def model_folder(model: str, models_folder: Path) -> Path:
    """The folder of a named model, of a folder, or of a hub id that was downloaded before.

    Raises:
        InvalidSettings: it is not there; the message says how to get it.
    """
    path = Path(model).expanduser()
    if (models_folder / model / "manifest.json").is_file():  # written last by a pull
        return models_folder / model
    if (path / "config.json").is_file():
        return path
    if not path.is_absolute() and model.count("/") == 1:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

        repository, _, revision = model.partition("@")
        try:
            return Path(
                snapshot_download(
                    repository, revision=revision or None, cache_dir=models_folder / "hub", local_files_only=True
                )
            )
        except (LocalEntryNotFoundError, HFValidationError):
            pass
    raise InvalidSettings(
        f"The model {model!r} is neither a folder nor in {models_folder}: run `rag models pull {model}`, "
        "or set RAG_MODEL, RAG_EMBEDDING_MODEL and RAG_RERANKER to models you have"
    )


def embedder_of(settings: Settings, folder: Callable[[str], Path], redis_url: str) -> Embedder:
    """The API's embedder, which loads no weights yet. Raises InvalidSettings if its folder is not there."""
    from retriever import SentenceTransformerEmbedder, make_embedder
    from workers.embedding.worker_embedder import WorkerEmbedder

    place = ("cpu", "float32") if settings.workers_embed else settings.embedding_place
    made = make_embedder(settings.embedding_model, folder, *place, *settings.embedding_prefixes)
    if settings.workers_embed and isinstance(made, SentenceTransformerEmbedder):
        return WorkerEmbedder(made, redis_url)
    return made


def reranking_of(settings: Settings, folder: Callable[[str], Path]) -> Reranking | None:
    """How searches are reranked; None if no reranker is set. No weights are loaded.

    Raises:
        InvalidSettings: the reranker is not there, is of another kind, or would run in an API without torch.
    """
    if settings.reranker is None:
        return None
    from retriever import CrossEncoderReranker, RerankerUnavailable, Reranking

    if settings.workers_embed:
        raise InvalidSettings(
            "RAG_RERANKER runs in the API, and RAG_EMBEDDING_DEVICE=workers keeps models out of it. Unset one of them; "
            "docs/how-to/containers.md says how in containers."
        )
    try:
        device, dtype = settings.embedding_place
        reranker = CrossEncoderReranker(folder(settings.reranker), name=settings.reranker, device=device, dtype=dtype)
    except RerankerUnavailable as error:
        raise InvalidSettings(f"RAG_RERANKER: {error}.") from None
    return Reranking(reranker, settings.reranker_candidates, settings.reranker_budget_ms)


def window_of(folder: Path) -> int:
    """How many tokens the model can hold, prompt and answer together (as `decoder.model.architecture.positions`).

    Raises:
        InvalidSettings: its config.json does not say.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    window = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
    if not isinstance(window, int) or window < 1:
        raise InvalidSettings(f"{folder / 'config.json'} names no max_position_embeddings; choose another model")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if "longrope" in (rope.get("rope_type"), rope.get("type")):
        original = rope.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
        window = min(window, int(original or window))
    return window
