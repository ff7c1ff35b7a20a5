"""The fields that the LangChain classes share: the service's address, and how an answer is generated. Sends nothing."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.load.serializable import Serializable
from langchain_core.utils import secret_from_env
from pydantic import AliasChoices, ConfigDict, Field, SecretStr

from rag_service.client import AsyncRagClient, RagClient, Retries
from rag_service.client.transport import TIMEOUT_S, address_of

NAMESPACE = __name__.split(".")[:-1]
"""The package that has the classes."""


class Service(Serializable):
    """A running service."""

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    base_url: str = Field(default_factory=address_of)
    """The service's address; else as for `RagClient`."""
    api_key: SecretStr | None = Field(default_factory=secret_from_env("RAG_API_KEY", default=None))
    """The key to send; else RAG_API_KEY, else the local key, to this machine alone."""
    timeout: float = Field(default=TIMEOUT_S, gt=0)
    """Seconds of silence after which a request fails."""
    max_retries: int = Field(default=2, ge=0)
    """How often a request is sent again that was rejected (429, 503) or never arrived."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return list(NAMESPACE)

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"api_key": "RAG_API_KEY"}

    def client(self) -> RagClient:
        """A client of the service; the caller closes it."""
        return RagClient(**self._client_options())

    def async_client(self) -> AsyncRagClient:
        """A client of the service for the running event loop; the caller closes it."""
        return AsyncRagClient(**self._client_options())

    def _client_options(self) -> dict[str, Any]:
        key = self.api_key.get_secret_value() if self.api_key is not None else None
        return {
            "base_url": self.base_url,
            "api_key": key,
            "timeout": self.timeout,
            "retries": Retries(self.max_retries),
        }


class Generation(Service):
    """How an answer is generated. Every field is also an option of every call."""

    collection: str | None = None
    """Collection to search; None: no retrieval."""
    session_id: str | None = None
    """Session to continue, or to start, whose turns the service remembers; None: each call stands alone."""
    retrieval: dict[str, Any] | None = None
    """`top_k`, `mode` and `filter`, as in POST /v1/query."""
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | None = Field(default=None, validation_alias=AliasChoices("stop", "stop_sequences"))
    """Strings that end the answer."""
    speculation: str | dict[str, Any] | None = None
    """`off`, `auto` or a drafter's name. Changes the speed, never the answer."""
    prediction: str | dict[str, Any] | None = None
    """The expected answer, or much of it. Makes the answer faster, never different."""
    abstain: Literal["off", "warn", "refuse"] | None = None
    """What happens if the passages probably do not answer the question; None: what the service is set to."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Other fields of the request: `top_k`, `min_p`, `logit_bias`, `exact`, …"""

    def sampling(self, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The fields that control generation; `kwargs` are the options of the call."""
        own = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": self.stop,
            "speculation": self.speculation,
            "prediction": self.prediction,
            "abstain": self.abstain,
            **self.model_kwargs,
            **{name: value for name, value in kwargs.items() if name not in NOT_SENT},
        }
        if stop is not None:
            own["stop"] = stop
        return {name: value for name, value in own.items() if value is not None}

    def query(self, question: str, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The fields of POST /v1/query."""
        collection = chosen_collection(self.collection, kwargs)
        retrieval = kwargs.get("retrieval", self.retrieval) if collection is not None else {"mode": "none"}
        session_id = kwargs.get("session_id", self.session_id)
        place = {"collection": collection, "session_id": session_id, "retrieval": retrieval}
        place = {name: value for name, value in place.items() if value is not None}
        return {"question": question, **self.sampling(stop, kwargs), **place}


NOT_SENT = frozenset({"model", "collection", "session_id", "retrieval", "stream", "streaming", "stream_usage"})
"""Options of a call that do not control generation."""
PREFIX = "rag:"
PLAIN = "default"


def model_name(collection: str | None) -> str:
    """The name by which OpenAI's clients select a collection; None: no retrieval."""
    return PLAIN if collection is None else f"{PREFIX}{collection}"


def chosen_collection(own: str | None, kwargs: dict[str, Any]) -> str | None:
    """The collection of a call: `collection=`, else `model="rag:…"`, else `own`."""
    if "collection" in kwargs:
        collection: str | None = kwargs["collection"]
        return collection
    model = kwargs.get("model")
    if isinstance(model, str):
        return model.removeprefix(PREFIX) if model.startswith(PREFIX) else None
    return own
