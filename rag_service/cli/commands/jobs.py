"""`rag jobs list|show|wait|cancel`: ingests, which go on whether or not anyone waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer

from rag_service.cli.api import Api
from rag_service.cli.console import err, out, print_json
from rag_service.cli.options import ApiKey, Json, Url, example
from rag_service.cli.stack.connect import connect
from rag_service.stack.exit_status import FAILED

POLL_S = 0.2

app = typer.Typer(help="Ingest jobs: list, show, wait, cancel.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job; `rag jobs list` has it.")]


@app.command("list", epilog=example("rag jobs list"))
def list_jobs(
    limit: Annotated[int, typer.Option(metavar="N", help="Most jobs to list.", min=1, max=1000)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List the ingests of the last seven days, the latest first."""
    with connect(url, api_key) as api:
        found = api.request("GET", "/v1/jobs", params={"limit": limit})
    if as_json:
        print_json(found)
        return
    for job in found["jobs"]:
        when = datetime.fromtimestamp(job["created"], UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        out().print(f"{job['job_id']}  {when}  {_state(job)}  {job['collection']}", markup=False)
    if not found["jobs"]:
        err().print("There are no jobs.")


@app.command("show", epilog=example("rag jobs show 3f2a…"))
def show(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Say how an ingest goes, and what could not be read."""
    with connect(url, api_key) as api:
        _tell(_read(api, job), as_json)


@app.command("wait", epilog=example("rag jobs wait 3f2a…"))
def wait(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Wait for the end of an ingest. Exit status 1 if it failed, was cancelled, or could not read something."""
    with connect(url, api_key) as api, err().status(f"Waiting for {job} …"):
        ended = wait_for(api, job)
    _tell(ended, as_json)
    if ended["status"] != "succeeded" or ended["failures"]:
        raise typer.Exit(FAILED)


@app.command("cancel", epilog=example("rag jobs cancel 3f2a…"))
def cancel(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Stop an ingest. Documents that are in stay."""
    with connect(url, api_key) as api:
        told = api.request("DELETE", f"/v1/jobs/{quote(job, safe='')}")
    if as_json:
        print_json(told)
    else:
        out().print("It stops." if told["cancelled"] else "It had ended already.")


def wait_for(api: Api, job_id: str, tell: Callable[[int], None] | None = None) -> dict[str, Any]:
    """A job when it has ended. `tell` is called with how many documents are done."""
    while True:
        job = _read(api, job_id)
        if tell is not None:
            tell(job["done"])
        if job["status"] not in ("queued", "running"):
            return job
        time.sleep(POLL_S)


def _read(api: Api, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = api.request("GET", f"/v1/jobs/{quote(job_id, safe='')}")
    return job


def _tell(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    out().print(_state(job), markup=False)
    for failure in job["failures"]:
        err().print(f"{failure['name']}: {failure['reason']}", style="yellow", markup=False)


def _state(job: dict[str, Any]) -> str:
    failed = len(job["failures"])
    unread = f", {failed} could not be read" if failed else ""
    return f"{job['status']}: {max(job['done'] - failed, 0)} of {job['total']} documents in{unread}"
