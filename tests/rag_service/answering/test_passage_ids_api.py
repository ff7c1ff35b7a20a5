"""Ids of passages that workers keep are forgotten where documents are deleted or replaced."""

from __future__ import annotations

from typing import Any

import pytest

from rag_service.client import RagClient
from workers.broker import keys

TEXT = "Owls sleep in the old barn by day, and hunt mice over the wide meadows by night."


@pytest.mark.parametrize("how", ["document", "collection", "replaced"])
def test_ids_of_passages_go_with_their_documents(live_url: str, world: Any, how: str) -> None:
    redis, name = world.place.client, keys.passage_ids("default")
    with RagClient(live_url) as rag:
        rag.ingest("owls", texts=[{"id": "owls", "text": f"{TEXT} ({how})"}])
        assert rag.query("Where do owls sleep?", collection="owls").passages
        assert redis.hlen(name) >= 1
        before = set(redis.hkeys(name))
        if how == "document":
            rag.delete_document("owls", "owls")
            assert not redis.exists(name, keys.passage_order("default"))
        elif how == "replaced":
            rag.ingest("owls", texts=[{"id": "owls", "text": "Owls moved out."}])
            assert before.isdisjoint(redis.hkeys(name)), "only what replaced it is kept"
        rag.delete_collection("owls")
    assert not redis.exists(name, keys.passage_order("default"))
