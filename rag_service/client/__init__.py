"""A client of the service: `RagClient`, and `AsyncRagClient` for asyncio and trio.

    with RagClient() as rag:  # the service that `rag up` started here, else that at RAG_URL
        rag.ingest("handbook", ["travel-policy.md"])
        print(rag.query("How much is the hotel limit?", collection="handbook").answer)

Imports neither torch nor FastAPI nor Celery.
"""

from rag_service.client.asynchronous import AsyncRagClient
from rag_service.client.calls import AnswerOptions, QueryOptions, Text
from rag_service.client.errors import (
    AnswerFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    Overloaded,
    RagConnectionError,
    RagError,
    RagProblem,
    RagTimeout,
    StreamBroken,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from rag_service.client.events import Done, Event, Passages, Restart, Token
from rag_service.client.ingested import Ingested
from rag_service.client.sync import RagClient
from rag_service.client.transport import Retries

__all__ = [
    "AnswerFailed",
    "AnswerOptions",
    "AsyncRagClient",
    "Conflict",
    "Done",
    "Event",
    "Ingested",
    "InvalidRequest",
    "NotFound",
    "Overloaded",
    "Passages",
    "QueryOptions",
    "RagClient",
    "RagConnectionError",
    "RagError",
    "RagProblem",
    "RagTimeout",
    "Restart",
    "Retries",
    "StreamBroken",
    "Text",
    "Token",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
]
