"""`rag ingest PATH…`: ingests files and folders, shows progress and names what failed and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.api import Api, Rejected
from rag_service.cli.commands.documents.jobs import print_failures, print_notes, wait_for
from rag_service.cli.console import CliError, count, err, out, print_json, progress_bar, say_dim
from rag_service.cli.metadata import Meta, metadata_of
from rag_service.cli.options import ApiKey, Json, Url
from rag_service.cli.stack.connect import connect
from rag_service.client import calls
from rag_service.client.calls import batches, contents, unreadable
from rag_service.contract.file_names import sendable
from rag_service.stack.exit_status import FAILED, UNREACHABLE

PATIENCE_S = 60.0
PAGE = 1000
"""Documents that one request lists."""
ALIKE = 0.75
"""Least likeness of a path's name and another that may be meant, as `difflib` measures it."""
OUTCOMES = {"added": "new", "replaced": "replaced", "unchanged": "unchanged"}
"""Counts of a job, and how they are called here."""
_STAYS = (
    "Not in the folder: {documents} that came from {folder}/. `rag docs delete` removes documents; a folder that is "
    "put in by `rag sync` from the start is kept in step."
)
_REPLACED = (
    "Replaced were documents of the same folder and file names. If they came from another folder of that name, give "
    "each folder a collection of its own (-c), or ingest the folder above both."
)

_GOES_ON = "Once the service runs again, the same command goes on: files that are in already cost nothing."


@dataclass(frozen=True)
class Source:
    """A file and its name in the collection. `problem` says why it is not sent; "" if it is.

    `alone` is True for a file that was named itself, and False for one that was found in a folder.
    """

    path: Path
    name: str
    problem: str = ""
    alone: bool = False


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATHS",
            help="Files and folders. Of a folder all files, except hidden ones and links out of the folder.",
        ),
    ],
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Collection; created if needed.")
    ] = DEFAULT_COLLECTION,
    meta: Meta = None,
    wait: Annotated[bool, typer.Option(help="Wait until all is ingested; else print the ids of the jobs.")] = True,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Ingest files and folders into a collection. Unchanged files that it already holds cost nothing.

    A document is named by its folder and the path below it, and replaces one of the same name: give folders of equal
    names a collection each, or name the folder above them both.
    The exit status is 0 if every file was ingested, and 1 if some could not be read; each is named with the reason.
    Uploaded files are ingested whether or not the command waits for them.
    """
    metadata = metadata_of(meta)
    sources = list(find_sources(paths))
    if not sources:
        raise CliError("There are no files in what you named; name files, or folders that contain some.")
    with connect(url, api_key, PATIENCE_S) as api:
        created = _create(api, collection)
        before = _names(api, collection)
        sources = known_names(sources, before)
        jobs, failures, outcomes = _ingest(api, collection, [one for one in sources if not one.problem], metadata, wait)
        if created and wait and len(failures) + sum(bool(one.problem) for one in sources) == len(sources):
            _withdraw(api, collection)
    failures = [_failure(source, source.problem) for source in sources if source.problem] + failures
    if as_json:
        print_json({"collection": collection, "files": len(sources), "jobs": jobs, **outcomes, "failures": failures})
    else:
        print_failures(failures)
        if wait:
            told = ", ".join(f"{outcomes[one]} {word}" for one, word in OUTCOMES.items() if outcomes[one])
            place = f"{collection!r}: {told}" if told else f"{collection!r}"
            ingested = len(sources) - len(failures)
            are = "is" if 1 in (ingested, len(sources)) else "are"
            out().print(f"{ingested} of {count(len(sources), 'file')} {are} in {place}.")
            if outcomes["replaced"] and not outcomes["unchanged"] and not all(source.alone for source in sources):
                say_dim(_REPLACED)
            for folder, gone in _left(paths, before - {source.name for source in sources}):
                say_dim(_STAYS.format(documents=count(gone, "document"), folder=folder.name))
        else:
            for job in jobs:
                out().print(job)
    if failures:
        raise typer.Exit(FAILED)


def find_sources(paths: Sequence[Path]) -> Iterator[Source]:
    """The files of `paths` and those in its folders, except hidden ones in folders.

    The name of a file is its folder's name and the path below it, whether the folder or the file is named, so that the
    file is one document either way. Links that lead out of their folder have a problem, and so do unreadable files.

    Raises:
        CliError: a path does not exist.
    """
    names: set[str] = set()
    places: set[Path] = set()
    for path in paths:
        for source in _sources_at(path):
            place = _place(source.path)
            if place in places:
                continue
            places.add(place)
            name = source.name if source.name not in names else source.path.resolve().as_posix()
            if name not in names:
                names.add(name)
                yield replace(source, name=sendable(name), problem=source.problem or unreadable(source.path))


def known_names(sources: Sequence[Source], names: Collection[str]) -> list[Source]:
    """The sources, each with the name that its file has in the collection already, if it has one.

    A name of two parts or more stands for a file whose path ends with it: the file may have come in alone, with its
    folder or with a folder above that. A name of one part, which earlier versions and the page give, stands for a file
    that is named alone; in a folder, a file of that name may be another one.
    """
    taken = {source.name for source in sources}
    renamed = []
    for source in sources:
        parts = _place(source.path).parts
        ends = (sendable("/".join(parts[first:])) for first in range(1, len(parts) - (not source.alone)))
        known = next((end for end in ends if end in names and end not in taken), None)
        if known is None or source.name in names:
            renamed.append(source)
        else:
            taken.add(known)
            renamed.append(replace(source, name=known))
    return renamed


def _left(paths: Sequence[Path], names: Collection[str]) -> Iterator[tuple[Path, int]]:
    """The folders that hold fewer files than were ingested from folders of their names, and how many are missing."""
    for path in paths:
        folder = sendable(path.resolve().name)
        gone = sum(name.startswith(f"{folder}/") for name in names) if path.is_dir() else 0
        if gone:
            yield path, gone


def _place(path: Path) -> Path:
    """Where the file, or the link of its name, lies."""
    return path.parent.resolve() / path.name


def _names(api: Api, collection: str) -> set[str]:
    """The names of a collection's documents."""
    names: set[str] = set()
    after: str | None = ""
    while after is not None:
        page = api.send(calls.documents(collection, PAGE, after))
        names.update(document.name for document in page.documents)
        after = page.next
    return names


def _similar(path: Path) -> Path | None:
    """A path beside one that does not exist, with nearly its name and the same ending."""
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return None
    alike = [name for name in names if Path(name).suffix.casefold() == path.suffix.casefold()]
    similar = get_close_matches(path.name, alike, 1, ALIKE)
    return path.with_name(similar[0]) if similar else None


def _sources_at(path: Path) -> list[Source]:
    try:
        path.lstat()
        if not path.exists():
            raise FileNotFoundError
    except FileNotFoundError:
        similar = _similar(path)
        hint = f" Did you mean {sendable(str(similar))}?" if similar else ""
        raise CliError(f"{sendable(str(path))} does not exist.{hint}") from None
    except OSError as error:
        return [Source(path, path.name[:500], f"the file cannot be read: {error.strerror}")]
    if not path.is_dir():
        return [Source(path, "/".join(_place(path).parts[1:][-2:]), alone=True)]
    root = path.resolve()
    sources = []
    for file in sorted(root.rglob("*")):
        relative = file.relative_to(root)
        name = (Path(root.name) / relative).as_posix()
        if any(part.startswith(".") for part in relative.parts):
            continue
        try:
            file.lstat()
        except OSError as error:  # a folder that may be listed, but whose files may not be accessed
            sources.append(Source(file, name, f"the file cannot be read: {error.strerror}"))
            continue
        if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(root):
            sources.append(Source(file, name, "a link that leads out of the folder; name its target to ingest that"))
        elif file.is_file():
            sources.append(Source(file, name))
    return sources


def _failure(source: Source, reason: str) -> dict[str, str]:
    return {"name": source.name, "reason": reason}


def _ingest(
    api: Api, collection: str, sources: Sequence[Source], metadata: dict[str, Any], wait: bool
) -> tuple[list[str], list[dict[str, str]], dict[str, int]]:
    """Ids of the jobs, what could not be sent or, if `wait`, read, and then also the counts of OUTCOMES."""
    jobs: list[str] = []
    failures: list[dict[str, str]] = []
    outcomes = dict.fromkeys(OUTCOMES, 0)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        bar = progress.add_task("Ingesting" if wait else "Sending", total=len(sources))
        before = 0
        for batch in batches(sources, path_of=lambda source: source.path):
            try:
                job_id, unread = _upload(api, collection, batch, metadata)
                failures += unread
                if job_id is not None:
                    jobs.append(job_id)
                if wait and job_id is not None:
                    job = _ended(api, job_id, partial(_advance, progress, bar, before))
                    failures += job["failures"]
                    for outcome in outcomes:  # services of version 0.1 send none
                        outcomes[outcome] += job.get(outcome, 0)
            except Rejected as rejected:
                if rejected.http_status != 413:
                    raise
                failures += [_failure(source, str(rejected)) for source in batch]
            except CliError as error:
                if error.status != UNREACHABLE:
                    raise
                raise CliError(f"{error} {_GOES_ON}", UNREACHABLE) from None
            except KeyboardInterrupt:
                if jobs:
                    err().print(f"Uploaded files are ingested; `rag jobs wait {jobs[-1]}` waits for them.")
                raise
            before += len(batch)
            progress.update(bar, completed=before)
            if progress.disable and before < len(sources):  # no terminal, so no bar
                say_dim(f"{before} of {len(sources)} files so far")
    return jobs, failures, outcomes


def _ended(api: Api, job_id: str, progress: Callable[[int], None]) -> dict[str, Any]:
    """Wait for a job; returns it. Raises CliError if it was cancelled or ingested nothing."""
    job = wait_for(api, job_id, progress)
    failures: list[dict[str, str]] = job["failures"]
    print_notes(job)
    if job["status"] == "cancelled":
        raise CliError("The ingest was cancelled. Documents ingested before stay.")
    if job["status"] == "failed" and job["done"] == 0:
        reason = failures[0]["reason"] if failures else "see the worker's log"
        raise CliError(f"The ingest failed: {reason}")
    return job


def _advance(progress: Progress, bar: TaskID, before: int, done: int) -> None:
    progress.update(bar, completed=before + done)


def _upload(
    api: Api, collection: str, batch: Sequence[Source], metadata: dict[str, Any]
) -> tuple[str | None, list[dict[str, str]]]:
    """The job's id, None if there was nothing to send, and the files that could not be read."""
    failures: list[dict[str, str]] = []
    files: list[tuple[str, IO[bytes]]] = []
    with ExitStack() as stack:
        for source in batch:
            try:
                files.append((source.name, stack.enter_context(contents(source.path))))
            except OSError as error:  # it vanished, or its disk fails
                failures.append(_failure(source, f"the file cannot be read: {error.strerror}"))
        if not files:
            return None, failures
        call = calls.add_files_described(collection, files, [{"metadata": metadata}] * len(files))
        # services of version 0.1 know no details
        return api.send(call if metadata else replace(call, data=None)), failures


def _create(api: Api, collection: str) -> bool:
    """Whether the collection is new."""
    try:
        api.send(calls.create_collection(collection))
    except Rejected as rejected:
        if rejected.code != "collection_exists":
            raise
        return False
    return True


def _withdraw(api: Api, collection: str) -> None:
    """Delete a collection that was created for nothing, if nobody has put a document into it meanwhile."""
    with suppress(Rejected):  # the key may not delete
        if not api.send(calls.documents(collection, 1, "")).documents:
            api.send(calls.delete_collection(collection))
