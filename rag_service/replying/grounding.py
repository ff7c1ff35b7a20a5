"""What replies in the form of another service's API carry besides its fields: passages, support, and how it was made.

Knows answers; knows no API's fields.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from rag_service.contract.answer import Answer


def grounding(answer: Answer) -> dict[str, Any]:
    """Of an answer from passages: citations, passages, support and what goes with it."""
    return {
        "citations": [citation.model_dump() for citation in answer.citations or ()],
        "passages": [passage.model_dump() for passage in answer.passages],
        **answer.model_dump(include={"support", "sentences", "answerable", "calibrated", "abstained"}),
        "grounded": answer.grounded,
        "note": answer.note,
        "nearest": answer.nearest and answer.nearest.model_dump(),
        "retrieval_query": answer.retrieval_query,
        "search_note": answer.search_note,
    }


def extras(answer: Answer) -> dict[str, Any]:
    """Of every answer."""
    return {
        "answer_id": answer.answer_id,
        "seed": answer.seed,
        "speculation": answer.speculation,
        "timings": answer.timings,
    }


def document_url(base_url: str, collection: str, document_id: str) -> str:
    """Args: base_url: where this service is reached, ending with a slash."""
    return f"{base_url}v1/collections/{quote(collection, safe='')}/documents/{quote(document_id, safe='')}"
