"""Which collection a question is asked that names none."""

from __future__ import annotations

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Rejected
from rag_service.cli.console import say_dim
from rag_service.client import calls

NAMED_COLLECTIONS = 8
"""Most collections that the advice names."""


def choose(api: Api, session: str | None = None) -> tuple[str | None, str | None]:
    """The collection of a question that names none, and what to say before its answer.

    The only collection that the key sees is taken, which is said on standard error, unless `session` has turns already
    and so collections of its own. The collection is None where the service chooses: `default`, the session's, or none.
    The advice is None where there is nothing to choose.
    """
    names = _names(api)
    if DEFAULT_COLLECTION in names:
        return None, None
    if len(names) == 1 and not _exists(api, session):
        say_dim(f"Searching {names[0]!r}, the only collection; -c names another.")
        return names[0], None
    return None, _advice(names) if session is None else None


def collections_to_choose(api: Api) -> str | None:
    """What to say to somebody who names no collection; None if there is the one for questions that name none."""
    names = _names(api)
    return None if DEFAULT_COLLECTION in names else _advice(names)


def _names(api: Api) -> list[str]:
    return [collection.name for collection in api.send(calls.collections())]


def _advice(names: list[str]) -> str:
    if not names:
        return "There are no collections, so answers do not rest on documents. `rag ingest PATH…` makes one."
    more = ", …" if len(names) > NAMED_COLLECTIONS else ""
    return (
        f"No collection is named and none is called {DEFAULT_COLLECTION!r}, so answers do not rest on your documents. "
        f"You have {', '.join(names[:NAMED_COLLECTIONS])}{more}: choose with -c."
    )


def _exists(api: Api, session: str | None) -> bool:
    if session is None:
        return False
    try:
        return bool(api.send(calls.session(session)).turns)
    except Rejected as rejected:
        if rejected.http_status != 404:
            raise
        return False
