"""Models of the catalogue as `rag models list` and the documentation show them."""

from __future__ import annotations

from typing import Any

from decoder.catalogue import DEFAULT_MODEL, ModelCard, named, on_the_hub

_FORMATS = ("float32", "bfloat16")
SWITCH = (
    "set RAG_MODEL to the name or hub id, for every process, and start again. docs/how-to/own-model.md explains it."
)


def card_lines(card: ModelCard, pulled: bool) -> list[str]:
    """A model known by name, in three lines."""
    marks = [card.kind, "downloaded" if pulled else "not downloaded"]
    marks += ["default"] if card.id == DEFAULT_MODEL else []
    marks += ["toy"] if card.toy else []
    memory = f"; a worker on a CPU takes {serving(card)}" if card.kind == "target" else ""
    return [
        f"{card.id}  {' · '.join(marks)}",
        f"  {card.title}: {card.note}",
        f"  {count(card.parameters)} parameters, {card.licence}, {(card.disk_bytes or 0) / 1e9:.1f} GB of disk{memory}",
    ]


def hub_line(card: ModelCard) -> str:
    """A model of the hub, in one line."""
    single, half = _weights(card)
    size = f"{count(card.parameters)} parameters, {card.licence}"
    languages = f"; languages: {card.languages}" if card.languages else ""
    prefixes = [f'"{prefix}"' for prefix in (card.query_prefix, card.passage_prefix) if prefix]
    wanted = f"; gets {' and '.join(prefixes)}" if prefixes else ""
    return f"{size}; weights {single} in float32, {half} in bfloat16{languages}{wanted}; {card.note}"


def named_table() -> list[str]:
    """The target models known by name as rows of a Markdown table."""
    rows = ["| name | parameters | disk | a worker on a CPU, float32 | bfloat16 | |", "|---|---|---|---|---|---|"]
    for card in named().values():
        if card.kind == "target":
            memory = (f"{card.serving_bytes(dtype) / 1e9:.1f} GB" for dtype in _FORMATS)
            note = f"a toy: {card.note}" if card.toy else card.note
            cells = (f"`{card.id}`", count(card.parameters), f"{(card.disk_bytes or 0) / 1e9:.1f} GB", *memory, note)
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def hub_table() -> list[str]:
    """The target models of the hub as rows of a Markdown table."""
    rows = ["| hub id | parameters | licence | weights, float32 | bfloat16 | |", "|---|---|---|---|---|---|"]
    for card in of_kind("target"):
        single, half = _weights(card)
        cells = (f"`{card.id}`", count(card.parameters), card.licence, single, half, card.note)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def embedding_table() -> list[str]:
    """The embedding models of the hub as rows of a Markdown table."""
    rows = [
        "| hub id | parameters | licence | weights, float32 | languages | before a question | before a passage | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for card in of_kind("embedding"):
        prefixes = (f'`"{prefix}"`' if prefix else "" for prefix in (card.query_prefix, card.passage_prefix))
        size = count(card.parameters), card.licence, _weights(card)[0], card.languages
        rows.append(f"| {' | '.join((f'`{card.id}`', *size, *prefixes, card.note))} |")
    return rows


def reranker_table() -> list[str]:
    """The rerankers of the hub as rows of a Markdown table."""
    rows = ["| hub id | parameters | licence | weights, float32 | languages | |", "|---|---|---|---|---|---|"]
    for card in of_kind("reranker"):
        size = count(card.parameters), card.licence, _weights(card)[0], card.languages
        rows.append(f"| {' | '.join((f'`{card.id}`', *size, card.note))} |")
    return rows


def of_kind(kind: str) -> list[ModelCard]:
    """The models of the hub of one kind, by size."""
    return [card for card in on_the_hub().values() if card.kind == kind]


def card_row(card: ModelCard) -> dict[str, Any]:
    """A model as JSON."""
    memory = {dtype: card.serving_bytes(dtype) for dtype in _FORMATS}
    return {
        "name": card.id,
        "title": card.title,
        "kind": card.kind,
        "default": card.id == DEFAULT_MODEL,
        "toy": card.toy,
        "parameters": card.parameters,
        "licence": card.licence,
        "disk_bytes": card.disk_bytes,
        "languages": card.languages or None,
        "query_prefix": card.query_prefix,
        "passage_prefix": card.passage_prefix,
        "serving_bytes": memory if card.kind == "target" else None,
        "about": card.note,
    }


def count(parameters: int) -> str:
    """A number of parameters: "135M", "1.5B"."""
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def serving(card: ModelCard) -> str:
    """The memory of a worker in both number formats."""
    single, half = (f"{card.serving_bytes(dtype) / 1e9:.1f} GB" for dtype in _FORMATS)
    return f"{single} of memory in float32, {half} in bfloat16"


def _weights(card: ModelCard) -> tuple[str, str]:
    single, half = (f"{card.weights_bytes(dtype) / 1e9:.1f} GB" for dtype in _FORMATS)
    return single, half
