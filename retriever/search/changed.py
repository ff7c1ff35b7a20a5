"""Whether the documents of passages that were found earlier still have their texts. Knows one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.search.fusion import place
from retriever.stores.protocol import Snapshot


def changed(snapshot: Snapshot, passages: Sequence[tuple[str, str]]) -> list[bool]:
    """For each (chunk id, text) whether the text is gone from its document, or the document itself.

    A document whose chunks have moved still has their texts.
    """
    places = [place(chunk_id) for chunk_id, _ in passages]
    records = snapshot.chunks_at(snapshot.rows_of(places)).values()
    chunks = {(one.document_id, one.chunk.ordinal): one.chunk.text for one in records}
    texts: dict[str, str] = {}

    def has(document_id: str, text: str) -> bool:
        if document_id not in texts:
            document = snapshot.document(document_id)
            texts[document_id] = "" if document is None else document.text
        return text in texts[document_id]

    return [
        chunks.get(at) != text and not (text and has(at[0], text))
        for at, (_, text) in zip(places, passages, strict=True)
    ]
