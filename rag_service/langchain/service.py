"""What the LangChain classes have in common: where the service is, and how an answer is generated.

Knows fields, the environment's defaults and serialisation; sends nothing.
"""

from __future__ import annotations

from typing import Any

from langchain_core.load.serializable import Serializable
from langchain_core.utils import from_env, secret_from_env
from pydantic import AliasChoices, ConfigDict, Field, SecretStr

from rag_service.client import AsyncRagClient, RagClient, Retries
from rag_service.client.transport import DEFAULT_URL, TIMEOUT_S

NAMESPACE = ["rag_service", "langchain"]


class Service(Serializable):
    """A running service."""

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    base_url: str = Field(default_factory=from_env("RAG_URL", default=DEFAULT_URL))
    """Where the service is; RAG_URL, else http://127.0.0.1:8080."""
    api_key: SecretStr | None = Field(default_factory=secret_from_env("RAG_API_KEY", default=None))
    """RAG_API_KEY where it is not given; a service on this machine is sent the local key where there is neither."""
    timeout: float = Field(default=TIMEOUT_S, gt=0)
    """Seconds of silence after which a request is given up."""
    max_retries: int = Field(default=2, ge=0)
    """How often a request is sent again that was refused as too early (429, 503) or never arrived."""

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
        """A client of the service; close it."""
        return RagClient(**self._reach())

    def async_client(self) -> AsyncRagClient:
        """A client of the service for the running event loop; close it."""
        return AsyncRagClient(**self._reach())

    def _reach(self) -> dict[str, Any]:
        key = self.api_key.get_secret_value() if self.api_key is not None else None
        return {
            "base_url": self.base_url,
            "api_key": key,
            "timeout": self.timeout,
            "retries": Retries(self.max_retries),
        }


class Generation(Service):
    """How an answer is generated. Every field can be given with a call as well."""

    collection: str | None = None
    """What the answer rests on; None: nothing is retrieved."""
    session_id: str | None = None
    """The session to continue, or to begin, whose turns the service remembers; None: each call stands alone."""
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
    """`off`, `auto` or a drafter's name: changes how fast an answer comes, never what it says."""
    prediction: str | dict[str, Any] | None = None
    """What the answer will be, or much of it: makes it faster, never different."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request: `top_k`, `min_p`, `logit_bias`, `exact`, …"""

    def sampling(self, stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        """What of the request is neither the question nor where to look; `given` comes with the call."""
        own = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": self.stop,
            "speculation": self.speculation,
            "prediction": self.prediction,
            **self.model_kwargs,
            **{name: value for name, value in given.items() if name not in NOT_SENT},
        }
        if stop is not None:
            own["stop"] = stop
        return {name: value for name, value in own.items() if value is not None}

    def query(self, question: str, stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        """The fields of POST /v1/query."""
        collection = chosen_collection(self.collection, given)
        retrieval = given.get("retrieval", self.retrieval) if collection is not None else {"mode": "none"}
        where = {
            "collection": collection,
            "session_id": given.get("session_id", self.session_id),
            "retrieval": retrieval,
        }
        said = {name: value for name, value in where.items() if value is not None}
        return {"question": question, **self.sampling(stop, given), **said}


NOT_SENT = frozenset({"model", "collection", "session_id", "retrieval", "stream", "streaming", "stream_usage"})
"""What a call may say that decides where the request goes, or how, and is no field of its sampling."""
PREFIX = "rag:"
PLAIN = "default"


def model_name(collection: str | None) -> str:
    """How OpenAI's clients name a model that answers from a collection; None: from nothing."""
    return PLAIN if collection is None else f"{PREFIX}{collection}"


def chosen_collection(own: str | None, given: dict[str, Any]) -> str | None:
    """The collection that a call means: `collection=`, else `model="rag:…"`, else the model's own."""
    if "collection" in given:
        collection: str | None = given["collection"]
        return collection
    model = given.get("model")
    if isinstance(model, str):
        return model.removeprefix(PREFIX) if model.startswith(PREFIX) else None
    return own
