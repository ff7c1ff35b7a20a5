"""`/v1/models` as OpenAI's client reads it: the model, collections, several of them, and the embedding model."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from retriever import Library
from tests.rag_service.conftest import World
from tests.support.hash_embedder import HashEmbedder

MODEL = "smollm2-135m"


@pytest.fixture
def api(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models(api: openai.OpenAI) -> None:
    listed = [model.id for model in api.models.list()]
    collections = listed[1:-1]  # other tests of this service may have made some
    assert (listed[0], listed[-1]) == (MODEL, "all-minilm-l6-v2")
    assert "rag:animals" in collections
    assert all(name.startswith("rag:") for name in collections)
    for name in (*listed, "default"):
        assert api.models.retrieve(name).id == name
    assert api.models.retrieve("rag:animals").created > 0
    assert api.models.retrieve("rag:animals,animals").id == "rag:animals,animals"
    for unknown in ("gpt-4o", "rag:animals,nothing", "rag:animals,", "rag:animals,no such name"):
        with pytest.raises(openai.NotFoundError) as error:
            api.models.retrieve(unknown)
        assert error.value.code == "model_not_found"


def test_several_collections_are_a_model_too(api: openai.OpenAI, world: World) -> None:
    library = Library(world.data_dir, HashEmbedder())
    library.create("models-zoo")
    try:
        for name in ("rag:animals,models-zoo", "rag:models-zoo,animals"):
            model = api.models.retrieve(name)
            assert (model.id, model.created) == (name, api.models.retrieve("rag:models-zoo").created)
    finally:
        library.delete("models-zoo")
        library.close()
