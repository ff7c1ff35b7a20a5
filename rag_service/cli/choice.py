"""Which collection a question is asked, or a document is looked up in, that names none."""

from __future__ import annotations

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Rejected
from rag_service.cli.console import CliError, say_dim
from rag_service.client import calls
from rag_service.contract.responses import CollectionInfo
from rag_service.stack.exit_status import USAGE

NAMED_COLLECTIONS = 8
"""Most collections that the advice names."""


def choose(api: Api, session: str | None = None, *, reading: bool = False) -> tuple[str | None, str | None]:
    """The collection of a question that names none, and what to say before its answer.

    The only collection that the key sees is taken, which is said on standard error. The collection is None where the
    service chooses: `default`, or that of `session`, if it has turns already. It is also None if there is no collection
    at all, which the advice says. `reading`: for commands that show the documents of one collection and search nothing.

    Raises:
        CliError: there are several to choose from.
    """
    found = api.send(calls.collections())
    names = _names(found)
    if DEFAULT_COLLECTION in names or _exists(api, session):
        return None, None
    if not names:
        return None, _advice(names)
    if len(names) > 1:
        several = "" if reading else f", or several: -c {','.join(names[:2])}"
        raise CliError(
            f"Which collection? None is named and none is called {DEFAULT_COLLECTION!r}. You have {_listed(names)}: "
            f"choose with -c{several}.",
            USAGE,
        )
    which = "the only collection" if len(found) == 1 else "the only collection with documents"
    say_dim(f"{'Reading' if reading else 'Searching'} {names[0]!r}, {which}; -c names another.")
    return names[0], None


def collections_to_choose(api: Api) -> str | None:
    """What to say to somebody who names no collection; None if there is the one for questions that name none."""
    names = _names(api.send(calls.collections()))
    return None if DEFAULT_COLLECTION in names else _advice(names)


def _names(found: list[CollectionInfo]) -> list[str]:
    """Those with documents; if none has any, all."""
    return [one.name for one in found if one.documents] or [one.name for one in found]


def _advice(names: list[str]) -> str:
    if not names:
        return "There are no collections, so answers do not rest on documents. `rag ingest PATH…` makes one."
    return (
        f"No collection is named and none is called {DEFAULT_COLLECTION!r}, so answers do not rest on your documents. "
        f"You have {_listed(names)}: choose with -c."
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:NAMED_COLLECTIONS]) + (", …" if len(names) > NAMED_COLLECTIONS else "")


def _exists(api: Api, session: str | None) -> bool:
    if session is None:
        return False
    try:
        return bool(api.send(calls.session(session)).turns)
    except Rejected as rejected:
        if rejected.http_status != 404:
            raise
        return False
