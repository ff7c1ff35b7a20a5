"""`rag usage`: what answers cost in tokens, from the Redis of the running stack."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rag_service.access.principal import NAME
from rag_service.cli.console import CliError, err, out, print_json
from rag_service.cli.options import Json
from rag_service.cli.stack.connect import stack_redis
from rag_service.stack.exit_status import USAGE


def usage(
    tenant: Annotated[
        str | None, typer.Option("--tenant", "-t", metavar="NAME", help="Only this tenant.  [default: all]")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="N", help="Days to tell of, with today, in UTC.", min=1, max=3660)
    ] = 30,
    as_json: Json = False,
) -> None:
    """Show what answers cost in tokens, by tenant, day and model. A tenant's own admin reads GET /v1/usage."""
    from rag_service.contract.usage import UsageOfDay
    from workers.sessions.costs import Costs

    if tenant is not None and not NAME.fullmatch(tenant):
        raise CliError(f"{tenant[:80]!r} is no name of a tenant; `rag keys list` shows the tenants of keys.", USAGE)
    with stack_redis("which counts the tokens") as client:
        costs = Costs(client)
        rows: list[dict[str, Any]] = [
            {"tenant": name, **UsageOfDay.of(day, cost).model_dump()}
            for name in ([tenant] if tenant is not None else costs.tenants())
            for day, cost in costs.by_day(name, days)
        ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        model = row["model"] if row["upstream"] is None else f"{row['model']} at {row['upstream']}"
        about = f", {row['estimated_tokens']} of them estimated" if row["estimated_tokens"] else ""
        out().print(
            f"{row['day']}  {row['tenant']}  {row['prompt_tokens']} prompt ({row['cached_tokens']} cached) + "
            f"{row['completion_tokens']} completion tokens{about}  {model}"
        )
    if not rows:
        err().print("No answer has cost tokens in these days.")
