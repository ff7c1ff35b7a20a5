"""Why a call failed, in words for the model that made it: what went wrong, and what it or its user can do. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from rag_service.client import RagProblem, Unauthorized
from rag_service.service_error import RagServiceError

_ADVICE = {
    "base_url or RAG_URL": "RAG_URL in the settings of this MCP server (or `rag mcp --url`)",
    "create it first, or list the collections there are": "list_collections lists those there are",
    "GET /v1/collections lists": "list_collections lists",
    "GET /v1/collections/NAME/documents lists": "list_documents lists",
    "list its documents for their ids": "list_documents lists those there are",
}
"""Advice for programs, from the service and its client -> the same for a model with these tools."""
_NO_KEY_STDIO = (
    "Ask the user to set RAG_API_KEY in the settings of this MCP server, or RAG_DATA_DIR to the folder of the service, "
    "whose local key it then sends."
)
_NO_KEY_HTTP = "Ask the user to have this MCP client send the header `Authorization: Bearer KEY`."
SHOWN_ERRORS = 3


def explained(error: RagServiceError, over_http: bool) -> str:
    """A failure as the tool's error text.

    Args:
        over_http: whether the MCP client is connected by HTTP, where it sends the key itself.
    """
    text = str(error)
    if isinstance(error, Unauthorized) and error.status == 401:
        refused = "The service refused the API key." if error.code == "invalid_key" else "The service needs an API key."
        return f"{refused} {_NO_KEY_HTTP if over_http else _NO_KEY_STDIO}"
    for advice, ours in _ADVICE.items():
        text = text.replace(advice, ours)
    if isinstance(error, RagProblem) and error.retry_after is not None:
        text = f"{text} Call again in {error.retry_after:g} s."
    return text


def of_arguments(error: ValidationError) -> str:
    """What is wrong with a call's arguments."""
    wrong = []
    for one in error.errors(include_url=False)[:SHOWN_ERRORS]:
        name = ".".join(str(part) for part in one["loc"])
        reason = one["msg"].removeprefix("Value error, ")
        wrong.append(f"{name}: {reason}" if name else reason)
    return f"Wrong arguments. {'; '.join(wrong)}. Correct them and call again."
