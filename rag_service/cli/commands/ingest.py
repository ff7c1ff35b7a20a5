"""`rag ingest PATH…`: files and folders into a collection, with progress, failures by name and reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Refused
from rag_service.cli.commands.jobs import wait_for
from rag_service.cli.console import CliError, err, out, print_json
from rag_service.cli.options import ApiKey, Json, Url
from rag_service.cli.stack.connect import connect
from rag_service.contract.file_names import sendable
from rag_service.stack.exit_status import FAILED

BATCH_FILES = 50
BATCH_BYTES = 16 * 2**20
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Source:
    """A file and the name it goes by in the collection."""

    path: Path
    name: str
    problem: str = ""
    """Why it is not sent; "" for one that is."""


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATHS…",
            help="Files and folders; folders with all they hold, but for hidden files and links that lead out.",
        ),
    ],
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Collection; made if it is not there.")
    ] = DEFAULT_COLLECTION,
    wait: Annotated[bool, typer.Option(help="Wait until all is in; else print the jobs' ids.")] = True,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Read files and folders into a collection. Files that are there already, unchanged, cost nothing.

    Exit status 0 when every file is in, 1 when some could not be read (each is named with the reason). What was
    uploaded goes in whether or not anyone waits for it.
    """
    found = list(find(paths))
    sources = [source for source in found if not source.problem]
    skipped = [{"name": source.name, "reason": source.problem} for source in found if source.problem]
    if not found:
        raise CliError("There are no files in what you named; name files, or folders that hold some.")
    with connect(url, api_key, PATIENCE_S) as api:
        _make(api, collection)
        jobs, failures = _ingest(api, collection, sources, wait)
    failures = skipped + failures
    if as_json:
        print_json({"collection": collection, "files": len(found), "jobs": jobs, "failures": failures})
    else:
        for failure in failures:
            err().print(f"{failure['name']}: {failure['reason']}", style="yellow", markup=False)
        if wait:
            out().print(f"{len(found) - len(failures)} of {len(found)} files are in {collection!r}.", markup=False)
        else:
            for job in jobs:
                out().print(job, markup=False)
    if failures:
        raise typer.Exit(FAILED)


def find(paths: Sequence[Path]) -> Iterator[Source]:
    """The files named and those in the folders named; hidden ones in folders are left out.

    A file in a folder goes by the folder's name and its path therein, so that ingesting the folder again replaces it.
    Of links in a folder those that lead out of it have a problem, and so has what cannot be read.

    Raises:
        CliError: a path does not exist.
    """
    taken: set[str] = set()
    for path in paths:
        for source in _named(path):
            name = source.name if source.name not in taken else source.path.resolve().as_posix()
            if name not in taken:
                taken.add(name)
                yield Source(source.path, sendable(name), source.problem or _unreadable(source.path))


def _named(path: Path) -> list[Source]:
    try:
        path.lstat()
        if not path.exists():
            raise FileNotFoundError
    except FileNotFoundError:
        raise CliError(f"{sendable(str(path))} does not exist.") from None
    except OSError as error:
        return [Source(path, path.name[:500], f"the file cannot be read: {error.strerror}")]
    if not path.is_dir():
        return [Source(path, path.name)]
    root = path.resolve()
    found = []
    for inside in sorted(root.rglob("*")):
        way = inside.relative_to(root)
        name = (Path(root.name) / way).as_posix()
        if _hidden(way):
            continue
        try:
            inside.lstat()
        except OSError as error:  # its folder may be listed, and nothing in it looked at
            found.append(Source(inside, name, f"the file cannot be read: {error.strerror}"))
            continue
        if inside.is_symlink() and not Path(os.path.realpath(inside)).is_relative_to(root):
            found.append(Source(inside, name, "a link that leads out of the folder; name its target to ingest that"))
        elif inside.is_file():
            found.append(Source(inside, name))
    return found


def _unreadable(path: Path) -> str:
    """Why a file cannot be read; "" for one that can."""
    try:
        path.open("rb").close()
    except OSError as error:
        return f"the file cannot be read: {error.strerror}"
    return ""


def batches(sources: Sequence[Source]) -> Iterator[list[Source]]:
    batch: list[Source] = []
    size = 0
    for source in sources:
        bytes_ = source.path.stat().st_size
        if batch and (len(batch) >= BATCH_FILES or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += bytes_
    if batch:
        yield batch


def _ingest(api: Api, collection: str, sources: Sequence[Source], wait: bool) -> tuple[list[str], list[dict[str, str]]]:
    """Ids of the jobs, and what could not be read (or sent, where nothing is waited for)."""
    jobs: list[str] = []
    failures: list[dict[str, str]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err(), transient=True) as progress:
        bar = progress.add_task("Ingesting" if wait else "Sending", total=len(sources))
        before = 0
        for batch in batches(sources):
            try:
                jobs.append(_upload(api, collection, batch))
                if wait:
                    failures += _ended(api, jobs[-1], partial(_advance, progress, bar, before))
            except Refused as refused:
                if refused.http_status != 413:
                    raise
                failures += [{"name": source.name, "reason": str(refused)} for source in batch]
            except OSError as error:
                raise CliError(f"{error.filename}: {error.strerror}") from None
            except KeyboardInterrupt:
                err().print(f"What was sent goes in; `rag jobs wait {jobs[-1]}` waits for it." if jobs else "")
                raise
            before += len(batch)
            progress.update(bar, completed=before)
    return jobs, failures


def _ended(api: Api, job_id: str, tell: Callable[[int], None]) -> list[dict[str, str]]:
    """Wait for a job; what it could not read. Raises CliError where nothing of it is in."""
    ended = wait_for(api, job_id, tell)
    failures: list[dict[str, str]] = ended["failures"]
    if ended["status"] == "cancelled":
        raise CliError("The ingest was cancelled; what was in before stays.")
    if ended["status"] == "failed" and ended["done"] == 0:
        reason = failures[0]["reason"] if failures else "see the worker's log"
        raise CliError(f"The ingest failed: {reason}")
    return failures


def _advance(progress: Progress, bar: TaskID, before: int, done: int) -> None:
    progress.update(bar, completed=before + done)


def _upload(api: Api, collection: str, batch: Sequence[Source]) -> str:
    with ExitStack() as stack:
        files = [("files", (source.name, stack.enter_context(source.path.open("rb")))) for source in batch]
        accepted = api.request("POST", f"/v1/collections/{collection}/documents", files=files)
    return str(accepted["job_id"])


def _make(api: Api, collection: str) -> None:
    try:
        api.request("POST", "/v1/collections", json={"name": collection})
    except Refused as refused:
        if refused.code != "collection_exists":
            raise


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
