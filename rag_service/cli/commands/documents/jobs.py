"""`rag jobs list|show|wait|cancel`: ingest jobs, which go on whether or not a command waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from rag_service.cli.api import Api
from rag_service.cli.console import err, local_time, out, print_json, print_result
from rag_service.cli.options import ApiKey, Json, Url, example, named
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from rag_service.stack.exit_status import FAILED

POLL_S = 0.2

app = typer.Typer(help="Ingest jobs: list, show, wait, cancel.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job; `rag jobs list` shows it.", callback=named)]


@app.command("list", epilog=example("rag jobs list"))
def list_jobs(
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of jobs.", min=1, max=1000)] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List the ingest jobs of the last seven days, the latest first."""
    with connect(url, api_key) as api:
        jobs = api.json(calls.jobs(limit))
    if as_json:
        print_json(jobs)
        return
    for job in jobs["jobs"]:
        out().print(f"{job['job_id']}  {local_time(job['created'])}  {_state(job)}  {job['collection']}")
    if not jobs["jobs"]:
        err().print("There are no jobs.")


@app.command("show", epilog=example("rag jobs show 3f2a…"))
def show(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the progress of an ingest job, and what could not be read."""
    with connect(url, api_key) as api:
        _print(api.json(calls.job(job)), as_json)


@app.command("wait", epilog=example("rag jobs wait 3f2a…"))
def wait(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Wait for an ingest job. The exit status is 1 if it failed, was cancelled or could not read a document."""
    with connect(url, api_key) as api, err().status(f"Waiting for {job} …"):
        ended = wait_for(api, job)
    _print(ended, as_json)
    if ended["status"] != "succeeded" or ended["failures"]:
        raise typer.Exit(FAILED)


@app.command("cancel", epilog=example("rag jobs cancel 3f2a…"))
def cancel(job: JobId, url: Url = None, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Cancel an ingest job. Documents that were ingested stay."""
    with connect(url, api_key) as api:
        result = api.json(calls.cancel_job(job))
    print_result(result, "The job stops." if result["cancelled"] else "The job had already ended.", as_json)


def wait_for(api: Api, job_id: str, progress: Callable[[int], None] = lambda done: None) -> dict[str, Any]:
    """Wait for a job to end. `progress` is called with the number of documents done."""
    while True:
        job: dict[str, Any] = api.json(calls.job(job_id))
        progress(job["done"])
        if job["status"] not in ("queued", "running"):
            return job
        time.sleep(POLL_S)


def _print(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    out().print(f"{_state(job)}  {job.get('collection', '')}".rstrip())  # services of version 0.1 name none
    print_failures(job["failures"])
    print_notes(job)


NAMED = 5
"""Files that are named of those that failed for one reason; `--json` names all."""


def print_failures(failures: Iterable[Mapping[str, str]]) -> None:
    """A line for each reason: how many files, why, and which."""
    by_reason: dict[str, list[str]] = {}
    for failure in failures:
        by_reason.setdefault(failure["reason"], []).append(failure["name"])
    for reason, names in by_reason.items():
        if len(names) == 1:
            err().print(f"{names[0]}: {reason}", style="yellow")
        else:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            err().print(f"{len(names)} files: {reason} ({', '.join(names[:NAMED])}{more})", style="yellow")


def print_notes(job: Mapping[str, Any]) -> None:
    for note in job.get("notes", ()):  # services of version 0.1 send none
        err().print(note, style="yellow")


def _state(job: dict[str, Any]) -> str:
    failed = len(job["failures"])
    unread = f", {failed} could not be read" if failed else ""
    return f"{job['status']}: {max(job['done'] - failed, 0)} of {job['total']} documents in{unread}"
