"""`rag audit`: who changed what, from the Redis of the running stack."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rag_service.access.principal import NAME
from rag_service.cli.console import CliError, err, out, print_json
from rag_service.cli.options import Json
from rag_service.cli.stack.connect import stack_redis
from rag_service.settings import load_settings
from rag_service.stack.exit_status import USAGE


def audit(
    tenant: Annotated[
        str | None, typer.Option("--tenant", "-t", metavar="NAME", help="Only this tenant.  [default: all]")
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", help="Days to tell of, up to now.", min=1, max=3660)] = 30,
    as_json: Json = False,
) -> None:
    """Show who ingested, deleted, created and revoked what, the newest first. A tenant's own admin reads GET
    /v1/audit."""
    from rag_service.access.audit_log import AuditLog

    if tenant is not None and not NAME.fullmatch(tenant):
        raise CliError(f"{tenant[:80]!r} is no name of a tenant; `rag keys list` shows the tenants of keys.", USAGE)
    with stack_redis("which has the audit log") as client:
        log = AuditLog(client, load_settings().audit_days)
        rows: list[dict[str, Any]] = [
            {"tenant": name, **entry.model_dump()}
            for name in ([tenant] if tenant is not None else log.tenants())
            for entry in log.entries(name, days)
        ]
    rows.sort(key=lambda row: float(row["time"]), reverse=True)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        when = datetime.fromtimestamp(row["time"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        key = row["key"] or "no key"
        who = f"{row['person']} ({key})" if row["person"] else key
        what = "  ".join(row[name] for name in ("collection", "document_id", "job_id", "key_id", "name") if row[name])
        out().print(f"{when}  {row['tenant']}  {who}  {row['action']}  {what}")
    if not rows:
        err().print("Nothing was changed in these days.")
