"""`rag keys create|list|revoke`: API keys, in the Redis of the running stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rag_service.access.principal import OPERATOR_KEY, Principal
from rag_service.cli.confirm import Yes, asks, confirm
from rag_service.cli.console import CliError, err, out, print_json, print_result
from rag_service.cli.options import Json, example, named
from rag_service.cli.stack.connect import stack_redis
from rag_service.contract.keys import Role
from rag_service.settings import load_settings
from rag_service.stack.exit_status import USAGE

if TYPE_CHECKING:
    from rag_service.access.api_keys import ApiKeys
    from rag_service.access.audit_log import AuditLog

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """API keys. Each belongs to a tenant, whose collections it opens, and to a person, whose sessions and answers it
    opens, and has a role."""


@app.command(
    "create",
    epilog=example('rag keys create "web page" --tenant research', "rag keys create ann --role reader -c handbook"),
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")],
    tenant: Annotated[
        str, typer.Option("--tenant", "-t", metavar="NAME", help="Tenant whose collections and jobs it opens.")
    ] = "default",
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="NAME",
            help="Person whose sessions and answers it opens.  [default: derived from NAME]",
        ),
    ] = None,
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            help="reader: ask, search, read; editor: also change collections and documents; admin: everything.",
        ),
    ] = "editor",
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", metavar="NAME", help="Restrict the key to this collection; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key and show it once: only its hash is stored."""
    with _keys() as (keys, log):
        try:
            created, key = keys.prepared(name, tenant, person=person, role=role, collections=collection)
        except ValueError as error:
            raise CliError(f"No key was created: {error}.", USAGE) from None
        with log.recording(_operator(tenant), "key.create", key_id=created.id):
            keys.add(created, key)
    if as_json:
        print_json({**asdict(created), "key": key})
        return
    out().print(key)
    err().print(
        f"Key {created.id} of tenant {created.tenant!r}, {created.role} {created.person!r}. It is shown only once. "
        "Send it as `Authorization: Bearer KEY`; for the rag commands set RAG_API_KEY.",
        style="dim",
    )


@app.command("list", epilog=example("rag keys list"))
def list_keys(as_json: Json = False) -> None:
    """List the keys: id, tenant, person, role, collections, creation time (and end) and name."""
    with _keys() as (keys, _):
        listed = keys.list()
    if as_json:
        print_json([asdict(key) for key in listed])
        return
    for key in listed:
        created = datetime.fromtimestamp(key.created, UTC).strftime("%Y-%m-%d %H:%M")
        collections = "all collections" if key.collections is None else ",".join(key.collections)
        owner = f"{key.tenant}  {key.person or 'nobody'}  {key.role}"
        until = "" if key.expires is None else f" to {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d %H:%M}"
        out().print(f"{key.id}  {owner}  {collections}  {created}{until}  {key.name}")
    if not listed:
        err().print("There are no keys besides the local one; `rag keys create NAME` makes one.")


@app.command("revoke", epilog=example("rag keys revoke 1b9d6bcd"))
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the key; `rag keys list` shows it.", callback=named)
    ],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Revoke a key: the service rejects it from now on, and ends the streams that it has open. Asks first."""
    with _keys() as (keys, log):
        found = keys.get(key_id)
        if found is None:
            raise CliError(f"There is no key {key_id[:80]!r}. `rag keys list` shows the keys.")
        if asks(yes):
            confirm(f"Revoke the key {found.id} ({found.name!r} of tenant {found.tenant!r})?")
        with log.recording(_operator(found.tenant), "key.revoke", key_id=found.id):
            keys.revoke(found.id)
    print_result({"revoked": key_id}, f"Revoked {key_id}.", as_json)


@contextmanager
def _keys() -> Iterator[tuple[ApiKeys, AuditLog]]:
    """The keys, and the log of their changes."""
    from rag_service.access.api_keys import ApiKeys
    from rag_service.access.audit_log import AuditLog

    with stack_redis("which stores the keys") as client:
        yield ApiKeys(client), AuditLog(client, load_settings().audit_days)


def _operator(tenant: str) -> Principal:
    return Principal(tenant, role="admin", key=OPERATOR_KEY)
