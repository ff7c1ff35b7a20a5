"""A drafter that needs a model which no worker has is refused before an answer is begun."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


@pytest.mark.decoder_only("a model server drafts in its own way")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "speculation", ["small_model", "copyspec+small_model", "casd+small_model", {"drafter": "small_model"}]
)
async def test_a_drafter_without_its_model_is_refused_at_once(
    client: httpx.AsyncClient, speculation: Any, stream: bool
) -> None:
    more = {"speculation": speculation, "stream": stream}
    for collection in ({"collection": "animals"}, {"retrieval": {"mode": "none"}}):
        refused = await client.post("/v1/query", json={"question": "What jumps?", **collection, **more})
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "invalid_request")
        assert "RAG_DRAFT_MODEL" in problem["detail"]
        assert "load_engine" not in problem["detail"]
    first = (await client.post("/v1/query", json={"question": "What jumps?", "collection": "animals"})).json()
    address = f"/v1/answers/{first['answer_id']}/edits"
    refused = await client.post(address, json={"instruction": "Shorter.", **more})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
