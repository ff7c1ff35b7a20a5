"""Why a model that is not on this machine cannot be pulled either, and what was probably meant."""

from __future__ import annotations

from difflib import get_close_matches

from decoder.catalogue import named

_KINDS = {"embedding_model": "embedding", "reranker": "reranker"}


def cannot_be_pulled(model: str, setting: str | None = None) -> str | None:
    """Sentences on a path, or on a name that is not in the catalogue; None for what can be pulled.

    Args:
        model: a model that is neither pulled nor a folder.
        setting: name of the field that names it, which says of what kind it must be; None for any kind.
    """
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        return (
            f"{model} is not a folder with a model (config.json, tokenizer.json and *.safetensors). Correct it, or use "
            "a name from `rag models list` or a hub id (owner/name)."
        )
    if "/" in model or model in named():
        return None
    kind = _KINDS.get(setting, "target") if setting else None
    names = [name for name, card in named().items() if kind in (None, card.kind)]
    similar = get_close_matches(model, names, 1)
    advice = f" Did you mean {similar[0]}?" if similar else ""
    known = f"Give one of {', '.join(names)}, " if names else "Give "
    return (
        f"there is no model {model!r}.{advice} {known}a hub id (owner/name; `rag models list --catalogue` lists some) "
        "or a folder."
    )
