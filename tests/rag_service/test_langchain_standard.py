"""LangChain's own standard tests, for the chat model and the retriever, against a live service.

The properties say what the classes can do; no test is changed.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import ChatModelIntegrationTests, RetrieversIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from rag_service.client import RagClient
from rag_service.langchain import ChatRagService, RagServiceRetriever

pytestmark = pytest.mark.usefixtures("own_folder")

ANIMALS = ("Whales sing low songs.", "Foxes jump over dogs.", "Herrings swim in schools.", "Bees dance for flowers.")


@pytest.fixture
def live(live_url: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A live service is where the environment says, as a user would have it."""
    monkeypatch.setenv("RAG_URL", live_url)
    return live_url


@pytest.fixture(scope="session")
def zoo(_live: str) -> str:
    """A collection of more documents than any test asks for."""
    with RagClient(_live) as rag:
        rag.ingest("zoo", texts=ANIMALS)
    return "zoo"


class _Chat:
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatRagService

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"collection": "animals"}


class TestChatModelUnit(_Chat, ChatModelUnitTests):
    @pytest.fixture(autouse=True)
    def _not_on_the_list(self, request: pytest.FixtureRequest) -> None:
        if request.node.name == "test_serdes":
            reason = (
                "load(allowed_objects='all') takes only classes on langchain-core's own list (langchain_core.load."
                "mapping), which packages get onto by a change of langchain-core. test_langchain.py loads ours by name."
            )
            request.applymarker(pytest.mark.xfail(raises=ValueError, strict=True, reason=reason))

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        env = {"RAG_API_KEY": "rag-secret", "RAG_URL": "http://there:1"}
        return env, {"collection": "animals"}, {"api_key": "rag-secret", "base_url": "http://there:1"}


@pytest.mark.usefixtures("live")
class TestChatModelLive(_Chat, ChatModelIntegrationTests):
    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "default"


@pytest.mark.usefixtures("live")
class TestChatModelLiveV1Content(_Chat, ChatModelIntegrationTests):
    """The same with citations in the message's content."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"collection": "animals", "output_version": "v1", "streaming": True}


@pytest.mark.usefixtures("live", "zoo")
class TestRetrieverLive(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return RagServiceRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"collection": "zoo"}

    @property
    def retriever_query_example(self) -> str:
        return "Who sings?"
